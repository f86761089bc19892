"""Answers to LoCoMo's questions from the state of the turn that is found first, scored by token F1 as LoCoMo does.

LoCoMo lower-cases, drops ASCII punctuation and the words a, an, the and and, and stems what is left (Porter, as in
`precog.evaluate.stemming`); a multi-hop answer is a list, parted at commas, each part against the best of what was
said; of an open-domain answer only what stands before a semicolon counts. Adversarial questions have no answer in
their conversation and are not asked: LoCoMo scores whether a model refuses.

A grounded answer is a span of what a chat would take one from: of the words of the turn, and of its header (time, day,
speaker, days of relative times) only where the question asks for such. It is scored however sure the model is; how
often a chat would say that it has no answer, and F1 with nothing scored there, are told beside it.
"""

import random
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.engine.confidence import Confidence
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import FreeSettings
from precog.errors import InputError
from precog.evaluate.locomo import Locomo
from precog.evaluate.locomo_retrieval import Conversation, conversation_of
from precog.evaluate.metrics import bootstrap
from precog.evaluate.reader import ParagraphReader, Said
from precog.evaluate.stemming import stem
from precog.memory.dial import Dial
from precog.memory.preceding import Said as Turn
from precog.memory.preceding import reply_to
from precog.memory.state_cost import StateCost, chunk_bytes
from precog.memory.transcript import CATEGORIES, LocomoQuestion
from precog.session.ranking import DEPTH, answers_first
from precog.session.spoken import spans_for
from precog.state.codec import codec_named

DIALS = ("1", "4", "all")
MODES = ("inject_grounded", "in_context_grounded", "inject_free", "in_context_free")
_MULTI_HOP, _OPEN_DOMAIN = 1, 3
_ARTICLES = re.compile(r"\b(a|an|the|and)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MOST_FREE_TOKENS = 24


def tokens_of(text: str) -> list[str]:
    """The stemmed words that are compared."""
    return [stem(word) for word in _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()]


def locomo_f1(said: str, question: LocomoQuestion) -> float:
    """Token F1 of what was said, in percent, by the question's category; 0 for a question without an answer."""
    answer = question.answer or ""
    if question.category == _MULTI_HOP:
        parts = said.split(",")
        return float(np.mean([max(_f1(part, wanted) for part in parts) for wanted in answer.split(",")]))
    return _f1(said, answer.split(";")[0] if question.category == _OPEN_DOMAIN else answer)


def _f1(said: str, answer: str) -> float:
    given, wanted = tokens_of(said), tokens_of(answer)
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 200.0 * shared / (len(given) + len(wanted)) if shared else 0.0


def sample_answered(questions: Sequence[LocomoQuestion], limit: int, seed: int) -> list[LocomoQuestion]:
    """So many of the questions that have an answer and evidence, in the file's order.

    Raises:
        InputError: there is none.
    """
    answered = [question for question in questions if question.answer is not None and question.evidence]
    if not answered:
        raise InputError("no question of this file has an answer and evidence", given=f"{len(questions)} questions")
    chosen = sorted(random.Random(seed).sample(range(len(answered)), min(limit, len(answered))))
    return [answered[number] for number in chosen]


@dataclass(frozen=True, eq=False)
class Asked:
    """A question and what came of it."""

    question: LocomoQuestion
    turn: str
    is_evidence: bool
    said: dict[str, Said]


def answers_of(
    data: Locomo,
    questions: Sequence[LocomoQuestion],
    backbone: Backbone,
    encoder: Encoder,
    codec: str,
    on_question: Callable[[int], None] = lambda _done: None,
) -> tuple[dict[str, object], list[Asked]]:
    """Answer questions from the turn a chat would, of those that flat hybrid search finds: from its state, and read.

    Args:
        data: the file.
        questions: with answers.
        backbone: the model.
        encoder: of questions and turns.
        codec: how states are stored.
        on_question: called with the number of questions done.

    Returns:
        The part ``answers`` of the report, and the answers.
    """
    settings: dict[str, GroundedSettings | FreeSettings] = {
        "grounded": GroundedSettings.from_card(backbone.card.decoding),
        "free": FreeSettings(max_tokens=_MOST_FREE_TOKENS),
    }
    readers = {kind: ParagraphReader(backbone, codec, of) for kind, of in settings.items()}
    conversations: dict[str, Conversation] = {}
    asked = []
    for done, question in enumerate(questions, 1):
        if question.conversation not in conversations:
            own = data.chunks[question.conversation]
            conversations[question.conversation] = conversation_of(
                question.conversation, own, encoder.encode_passages, "memory"
            )
        conversation = conversations[question.conversation]
        key = encoder.encode_query(question.question)
        best = conversation.chunks[_first(conversation, conversation.search(question.question, key, "hybrid").rows)]
        turn, said = best.read_text(), {}
        for kind, reader in readers.items():
            reader.encode([turn])
            source = spans_for(question.question, reader.source(turn), best.header, backbone.tokenizer)
            said[f"inject_{kind}"] = reader.inject(question.question, [turn], [1.0], 1.0, [source])
            said[f"in_context_{kind}"] = reader.in_context(question.question, turn, source)
        asked.append(Asked(question, turn, best.utterance.reference in question.evidence, said))
        on_question(done)
    return _report(asked, backbone), asked


def _first(conversation: Conversation, rows: Sequence[int]) -> int:
    """What a chat would answer from: what only asks stands behind what tells."""
    chunks = conversation.chunks

    def reply(row: int) -> int | None:
        later = ((number, Turn.of_chunk(chunks[number])) for number in range(row + 1, len(chunks)))
        return reply_to(Turn.of_chunk(chunks[row]), later)

    return answers_first(rows[:DEPTH], lambda row: chunks[row].utterance.text, reply)[0]


def _report(asked: Sequence[Asked], backbone: Backbone) -> dict[str, object]:
    modes: dict[str, object] = {}
    least = Confidence.of_model(backbone.card).threshold
    for mode in MODES:
        scores = [locomo_f1(one.said[mode].text, one.question) for one in asked]
        found = [score for score, one in zip(scores, asked, strict=True) if one.is_evidence]
        whole = bootstrap(scores)
        withheld = [one.said[mode].confidence < least for one in asked]  # of a free answer NaN, which is below nothing
        spoken = [0.0 if is_withheld else score for score, is_withheld in zip(scores, withheld, strict=True)]
        context = [0 if mode.startswith("inject") else 1 + len(backbone.tokenizer.encode(one.turn)) for one in asked]
        modes[mode] = {
            "f1": whole.mean,
            "f1_interval": [whole.low, whole.high],
            "abstained": float(np.mean(withheld)),
            "f1_abstentions_counted": float(np.mean(spoken)),
            "f1_where_evidence_is_first": float(np.mean(found)) if found else None,
            "f1_by_category": {
                name: float(np.mean(own))
                for number, name in CATEGORIES.items()
                if (own := [s for s, one in zip(scores, asked, strict=True) if one.question.category == number])
            },
            "mean_tokens_read": float(np.mean([one.said[mode].tokens_processed for one in asked])),
            "mean_context_tokens_read": float(np.mean(context)),
            "median_latency_sec": float(np.median([one.said[mode].latency_sec for one in asked])),
        }
    return {
        "n": len(asked),
        "evidence_is_first": float(np.mean([one.is_evidence for one in asked])),
        "modes": modes,
        "stemmer": "Porter",
    }


def storage_of(data: Locomo, backbone: Backbone, codec: str) -> dict[str, object]:
    """What the states of all turns would take at several settings of the dial, and what reading all would cost.

    Returns:
        ``bytes`` by K, ``state_bytes`` (one state with its τ), ``num_texts``, and ``mean_conversation_tokens``.
    """
    cost = StateCost.of(backbone.spec, codec_named(codec))
    lengths = {
        name: [len(backbone.tokenizer.encode(chunk.read_text())) for chunk in own] for name, own in data.chunks.items()
    }
    every = [length for own in lengths.values() for length in own]
    return {
        "bytes": {dial: sum(chunk_bytes([Dial.parse(dial)], length, cost) for length in every) for dial in DIALS},
        "state_bytes": cost.num_bytes,
        "num_texts": len(every),
        "mean_conversation_tokens": float(np.mean([sum(own) for own in lengths.values()])),
    }
