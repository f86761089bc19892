"""What an answer may be a span of: the words of a turn, its header only where it is asked for; so in LoCoMo, too."""

import datetime
from collections.abc import Callable

import numpy as np
import pytest
from made_keys import CountingEncoder
from tiny_memory import open_memory

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import Source
from precog.evaluate.locomo import CHUNK_TOKENS, Locomo
from precog.evaluate.locomo_answers import answers_of
from precog.memory.chunking import chunks_of
from precog.memory.deposit import deposit
from precog.memory.transcript import LocomoQuestion
from precog.memory.utterance import Utterance
from precog.session import Session
from precog.session.spoken import asks_for_header, said_in, spans_for

NOON = datetime.datetime(2023, 5, 8, 13, 56, tzinfo=datetime.UTC)
TURNS = [
    Utterance("I adopted a grey cat named Pepper yesterday.", NOON, "Caroline", reference="D1:1"),
    Utterance("My sister moved to Oslo for her new job.", NOON, "Bo", reference="D1:2"),
    Utterance("The rent of my flat went up by ninety euros.", NOON, "Caroline", reference="D1:3"),
]
QUESTIONS = [
    "What is the name of the grey cat?",
    "When did Caroline adopt a cat?",
    "Who has a sister that moved to Oslo?",
    "Who said the rent of the flat went up?",
    "What went up by ninety euros?",
]
HEADED = {1, 3}


@pytest.mark.parametrize("question", ["When was it?", "Which year did she go?", "Who told you that?", "How long ago?"])
def test_questions_for_the_header(question: str) -> None:
    assert asks_for_header(question)


@pytest.mark.parametrize("question", ["Who moved to Oslo?", "Whenever it rains, who sings?", "Where is the cat?"])
def test_questions_for_what_was_said(question: str) -> None:
    assert not asks_for_header(question)


def test_the_header_is_cut_off_unless_it_is_asked_for(backbone: TennsBackbone) -> None:
    tokenizer = backbone.tokenizer
    for chunk in chunks_of(TURNS, tokenizer, max_tokens=256):
        whole = Source.of(tokenizer.encode(chunk.read_text()))
        assert spans_for("When was it?", whole, chunk.header, tokenizer) is whole
        for made in (spans_for("What?", whole, chunk.header, tokenizer), said_in(whole, chunk.header, tokenizer)):
            assert tokenizer.decode(made.token_ids.tolist()).strip() == chunk.utterance.text
        assert said_in(whole, "", tokenizer) is whole
        assert said_in(whole, "[something else] ", tokenizer) is whole


def test_locomo_is_answered_as_a_chat_answers(
    tmp_path, session: Callable[..., Session], backbone: TennsBackbone
) -> None:
    chunks = tuple(chunks_of(TURNS, backbone.tokenizer, max_tokens=CHUNK_TOKENS))
    with open_memory(tmp_path / "m", backbone) as memory:
        deposit(memory, chunks)
    questions = [LocomoQuestion(f"c/{n}", "c", text, "x", ("D1:1",), 4) for n, text in enumerate(QUESTIONS)]
    report, asked = answers_of(Locomo({"c": chunks}, tuple(questions)), questions, backbone, CountingEncoder(), "fp16")
    with session(tmp_path / "m") as chat:
        withheld = 0
        for number, one in enumerate(asked):
            reply = chat.say(one.question.question)
            said = one.said["inject_grounded"]
            assert reply.text == said.text
            assert reply.confidence == pytest.approx(said.confidence, rel=1e-6)
            assert reply.evidence[0].memory is not None
            text = reply.evidence[0].memory.deposit.info.text
            if number not in HEADED:
                assert said.text in text
                assert one.said["in_context_grounded"].text in text
            withheld += said.confidence < chat._grounded.min_confidence
    modes = report["modes"]
    assert isinstance(modes, dict)
    assert modes["inject_grounded"]["abstained"] == pytest.approx(withheld / len(QUESTIONS))
    assert np.isfinite(modes["inject_free"]["f1_abstentions_counted"])
