"""Laws of the made tasks: an answer is its span, an unanswerable question has none, a seed decides everything."""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import InputError
from precog.questions.noise import content_words
from precog.questions.passage import Kind, Passage
from precog.train.data.chat import Conversation, Slot, Turn, read_conversations
from precog.train.data.counterfactual import EntityPool
from precog.train.data.dialogue import dialogue_passages
from precog.train.data.passages import make_passage
from precog.train.data.remix import remixed, unanswerable_asks
from precog.train.data.squad import Paragraph, held_out_paragraphs, held_out_titles, squad_passages

SENTENCES = (
    "The old mill was built in 1750 by Henry Stone.",
    "Maria Weber wrote the novel in Geneva.",
    "It is 34 m tall and lies near Lake Como.",
    "She died in 1851 after a long illness.",
    "The town has 12,500 inhabitants, and 40% of them work in Milan.",
    "However, the bridge of the village was destroyed during the war.",
    "These stones were sold for $3 million to the museum of Turin.",
    'Critics called the book "the quiet river" because the plot was slow.',
    "John Baker, a teacher from Oxford, founded the school in 1910.",
    "The council elected Paul Miller as the mayor of the city on 4 July 1920.",
)
texts = st.lists(st.sampled_from(SENTENCES), min_size=2, max_size=9, unique=True).map(" ".join)
seeds = st.integers(0, 10_000)


def check(passage: Passage) -> None:
    for ask in passage.asks:
        if ask.kind is Kind.UNANSWERABLE:
            assert (ask.start, ask.stop) == (0, 0)
        else:
            assert 0 <= ask.start < ask.stop <= len(passage.text)
            answer = passage.text[ask.start : ask.stop]
            assert answer == answer.strip()
        assert len(ask.question.split()) >= 1


@given(texts, seeds, st.booleans())
@settings(max_examples=120)
def test_made_questions_hold_no_answer_and_point_into_their_text(text: str, seed: int, swapped: bool) -> None:
    made = [make_passage(text, "Maria Weber", EntityPool(), random.Random(seed), 12, swapped) for _ in range(2)]
    assert made[0] == made[1]
    check(made[0])
    for ask in made[0].asks:
        assert made[0].text[ask.start : ask.stop].lower() not in ask.question.lower()


PARAGRAPHS = [
    Paragraph(
        "Place",
        " ".join(SENTENCES[i] for i in order),
        tuple(asked),
    )
    for order, asked in (
        ((0, 1, 4), [("Who built the old mill?", "Henry Stone", None),
                     ("Where was the novel written?", "Geneva", None)]),
        ((6, 7, 8), [("What was the price of the stones?", "$3 million", None),
                     ("Who founded the school?", "John Baker", None)]),
        ((9, 5), [("Which mayor did the council of the city elect?", "Paul Miller", None)]),
    )
]  # fmt: skip


@given(seeds, st.integers(0, 2))
@settings(max_examples=150)
def test_a_remix_keeps_every_answer_in_its_sentence(seed: int, number: int) -> None:
    paragraph = PARAGRAPHS[number]
    rng = random.Random(seed)
    made = remixed(paragraph, PARAGRAPHS, EntityPool(), rng, 0.4)
    assert made == remixed(paragraph, PARAGRAPHS, EntityPool(), random.Random(seed), 0.4)
    for passage in made:
        check(passage)
        assert len(passage.text) <= 1000
        answers = [passage.text[a.start : a.stop] for a in passage.asks if a.kind is Kind.SQUAD]
        assert len(answers) == len(paragraph.asked)
        for ask in passage.asks:
            if ask.kind is Kind.UNANSWERABLE:
                source = next(
                    answer
                    for other in PARAGRAPHS
                    for question, answer, _ in other.asked
                    if content_words(question) == content_words(ask.question)
                )
                assert source.lower() not in passage.text.lower()


def test_remixes_differ_from_one_another() -> None:
    made = {remixed(PARAGRAPHS[0], PARAGRAPHS, EntityPool(), random.Random(seed), 0.2)[0] for seed in range(20)}
    assert len(made) > 10


def test_a_question_the_text_answers_or_resembles_is_not_unanswerable() -> None:
    text = "The old mill of the village was built in 1750."
    kept = ("Which colour did the roof of the castle have?", "red")
    others = [
        ("When was the bridge of the town opened?", "1750"),  # its answer stands in the text
        ("Who built the old mill of the village?", "Henry Stone"),  # a sentence looks like the question
        ("Who sang?", "Ann"),  # too little is asked
        kept,
    ]
    asks = unanswerable_asks(text, others, random.Random(0), 4)
    assert [ask.question for ask in asks] == [kept[0]]


def test_squad_v2_questions_without_an_answer_are_unanswerable() -> None:
    (passage,) = squad_passages(Paragraph("T", SENTENCES[0], (("Who sold the mill?", "", 0),)))
    assert passage.asks[0].kind is Kind.UNANSWERABLE


def test_small_files_hold_out_less() -> None:
    many = [f"T{i}" for i in range(442)]
    assert len(held_out_titles(many)) == 40
    assert len(held_out_titles(many[:30])) == 3
    few = [Paragraph("T", f"text {i}", ()) for i in range(50)]
    assert held_out_paragraphs(few) == {"text 10", "text 30"}
    assert held_out_paragraphs(few[:5]) == frozenset()


TALK = Conversation(
    "1",
    (
        Turn("USER", "Please find a table in San Jose for me.", (Slot("city", 23, 31),)),
        Turn("SYSTEM", "Sino in San Jose is free at 11:30 am.", (Slot("restaurant_name", 0, 4), Slot("city", 8, 16))),
        Turn("USER", "Is it free at 12:15 pm, too?", (Slot("time", 14, 22),)),
        Turn("SYSTEM", "It is not, only at 11:30 am.", (Slot("time", 19, 27),)),
    ),
)


@given(seeds)
@settings(max_examples=80)
def test_dialogue_questions_are_answered_by_a_turn(seed: int) -> None:
    (passage,) = dialogue_passages(TALK, random.Random(seed))
    check(passage)
    assert all(ask.kind is Kind.DIALOGUE for ask in passage.asks)
    answers = {passage.text[a.start : a.stop] for a in passage.asks}
    assert {"San Jose", "Sino"} <= answers
    asked = {ask.question.lower().rstrip("?") for ask in passage.asks}
    assert not asked & {"at what time is it", "when does it begin", "what time was agreed on"}  # two times were named


@given(st.lists(st.tuples(st.sampled_from(["Ann", "Bob"]), texts), min_size=1, max_size=12), seeds)
@settings(max_examples=60)
def test_any_chat_gives_passages_that_fit(said: list[tuple[str, str]], seed: int) -> None:
    conversation = Conversation("x", tuple(Turn(who, text) for who, text in said))
    for passage in dialogue_passages(conversation, random.Random(seed)):
        check(passage)
        assert len(passage.text) <= 901
        assert all(a != b for a, b in pairwise(passage.asks))


def test_conversations_are_read_in_every_form(tmp_path: Path) -> None:
    slot = {"slot": "city", "start": 3, "exclusive_end": 7}
    said = (("USER", "In Rome.", [slot]), ("SYSTEM", "Yes.", []))
    turns = [{"speaker": who, "text": text, "time": "1", "slots": slots} for who, text, slots in said]
    messages = [{"role": who, "content": text} for who, text, _ in said]
    frames = [{"speaker": who, "utterance": text, "frames": [{"slots": slots}]} for who, text, slots in said]
    forms = {
        "a.jsonl": json.dumps({"id": "7", "turns": turns}),
        "b.jsonl": json.dumps({"id": "7", "messages": messages}),
        "c.json": json.dumps([{"dialogue_id": "7", "turns": frames}], indent=1),
    }
    for name, content in forms.items():
        (tmp_path / name).write_text(content)
        (conversation,) = read_conversations(tmp_path / name)
        assert conversation.name == "7"
        assert [(t.speaker, t.text) for t in conversation.turns] == [("USER", "In Rome."), ("SYSTEM", "Yes.")]
        slots = conversation.turns[0].slots
        assert slots == (() if name == "b.jsonl" else (Slot("city", 3, 7),))


@pytest.mark.parametrize("line", ["{}", "nonsense", '{"turns": [{"speaker": "A"}]}', '{"turns": [3]}', "[" * 20_000])
def test_what_is_no_conversation_is_told_in_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line)
    with pytest.raises(InputError, match="conversations") as told:
        list(read_conversations(tmp_path / "a.jsonl"))
    assert "\n" not in str(told.value)
