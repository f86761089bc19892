"""Questions in other words: what they ask for stays."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from precog.questions.noise import careless, content_words, recast, reword, thin, trim
from precog.questions.verbs import base_form, participle, past_form, present_form
from precog.questions.wordings import NOUN_WORDINGS, PAST_WORDINGS, VERB_WORDINGS

SENTENCES = (
    "The old mill was built in 1750 by Henry Stone.",
    "It is 34 m tall and lies near Lake Como.",
    "The town has 12,500 inhabitants, and 40% of them work in Milan.",
    "However, the bridge of the village was destroyed during the war.",
    "These stones were sold for $3 million to the museum of Turin.",
    'Critics called the book "the quiet river" because the plot was slow.',
    "The council elected Paul Miller as the mayor of the city on 4 July 1920.",
)


@given(st.sampled_from(SENTENCES), st.integers(0, 10_000))
@settings(max_examples=150)
def test_noise_keeps_what_a_question_needs(sentence: str, seed: int) -> None:
    rng = random.Random(seed)
    question = f"Which {sentence.split()[1]} {sentence.rstrip('.')[4:]} in ___ and elsewhere?"
    thinned = thin(question, rng)
    assert "___" in thinned
    assert thinned.split()[0] == "Which"
    assert len(thinned) <= len(question)
    assert content_words(thinned) <= content_words(question)
    assert len(content_words(thinned)) >= min(3, len(content_words(question))) - 1
    assert "___" in reword(question, rng)
    rough = careless(question, rng).lower().rstrip("?").split()
    assert len(question.split()) - len(rough) in (0, 1)


def questions(change: object, question: str) -> set[str]:
    assert callable(change)
    return {change(question, random.Random(seed)) for seed in range(60)}


def test_questions_are_recast_by_what_they_ask() -> None:
    assert "What is the birthplace of Ann Lee?" in questions(recast, "Where was Ann Lee born?")
    assert "When was the death of Otto von Stein?" in questions(recast, "When did Otto von Stein die?")
    assert questions(recast, "Who wrote the novel?") >= {
        "Who is the author of the novel?",
        "By whom was the novel written?",
        "The novel was written by whom?",
    }
    assert "By whom were two moons discovered?" in questions(recast, "Who discovered two moons?")
    assert questions(recast, "What is the tallest tower in Rome?") == {"What is the tallest tower in Rome?"}


def test_words_are_replaced_by_those_of_their_form() -> None:
    made = questions(reword, "What did the company build in the city during two large wars?")
    assert any(" construct in the city" in q for q in made)
    assert any("two big conflicts" in q or "2 large conflicts" in q for q in made)
    assert not any("built" in q or "Company" in q for q in made)
    assert not any("drama" in q for q in questions(reword, "Who plays in the film?"))
    assert any("was erected" in q or "was built" in q for q in questions(reword, "What was constructed here?"))
    assert questions(reword, "What led to the rise of Rome?") == {"What led to the rise of Rome?"}  # no "headed to"


def test_tables_of_words_are_consistent() -> None:
    for table in (NOUN_WORDINGS, VERB_WORDINGS, PAST_WORDINGS):
        assert len(table) > 150
        assert all(others and word not in others for word, others in table.items())
    for verb in ("carry", "stop", "build", "create", "choose", "permit"):
        assert base_form(past_form(verb)) == verb
    assert [participle(v) for v in ("write", "build", "divide")] == ["written", "built", "divided"]
    assert [present_form(v) for v in ("carry", "teach", "lead")] == ["carries", "teaches", "leads"]


def test_a_trimmed_question_is_still_a_question() -> None:
    question = "Who built the old stone bridge of the village in the year of the flood?"
    made = questions(trim, question)
    assert "Who built the stone bridge of the village?" in made
    assert all(q.startswith("Who built the") and q.endswith("?") for q in made)
    assert questions(trim, "The bridge was built by the council in what year?") == {
        "The bridge was built by the council in what year?"
    }
