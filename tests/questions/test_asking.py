"""Questions made from a text: about spans of it, decided by the seed, and the same as ever."""

import hashlib
import random
from importlib.resources import files

from hypothesis import given, settings
from hypothesis import strategies as st

from precog.questions.asking import asks_about, sentences_of
from precog.questions.passage import Kind

SENTENCES = (
    "The old mill was built in 1750 by Henry Stone.",
    "Maria Weber wrote the novel in Geneva.",
    "She died in 1851 after a long illness.",
    "The town has 12,500 inhabitants, and 40% of them work in Milan.",
    "These stones were sold for $3 million to the museum of Turin.",
    'Critics called the book "the quiet river" because the plot was slow.',
    "The council elected Paul Miller as the mayor of the city on 4 July 1920.",
)


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6), st.sampled_from([" ", "\n"]), st.integers(0, 99))
@settings(max_examples=80)
def test_questions_point_into_their_text_and_hold_no_answer(told: list[str], joint: str, seed: int) -> None:
    text = joint.join(told)
    asks = asks_about(text, "Maria Weber", random.Random(seed), 12)
    assert asks == asks_about(text, "Maria Weber", random.Random(seed), 12, sentences_of(text))
    assert len(asks) <= 12
    assert len({text[a.start : a.stop] for a in asks}) == len(asks)
    for ask in asks:
        assert ask.kind in (Kind.WH, Kind.CLOZE)
        assert 0 <= ask.start < ask.stop <= len(text)
        assert text[ask.start : ask.stop].lower() not in ask.question.lower()


def test_a_text_without_anything_to_ask_for_has_no_questions() -> None:
    assert asks_about("", "", random.Random(0), 12) == ()
    assert asks_about("so it goes", "", random.Random(0), 12) == ()


def test_questions_are_those_that_were_made_before() -> None:
    """Prepared data and keys of questions are made anew from a text and a seed, so that the rules must not drift."""
    lines = files("precog.text").joinpath("data/sample.txt").read_text(encoding="utf-8").splitlines()
    made = [asks_about(line, "Saint Helena", random.Random(5), 12) for line in lines if line]
    assert sum(map(len, made)) == 528
    digest = hashlib.sha256(
        repr([[(a.question, a.start, a.stop, int(a.kind)) for a in asks] for asks in made]).encode()
    )
    assert digest.hexdigest()[:16] == "39e4b658cac5929f"
