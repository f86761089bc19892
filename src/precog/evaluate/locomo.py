"""LoCoMo: evidence found in long conversations, by routing against searching all of it (paper Table 10).

Questions without evidence are left out of recall. Three recalls at k are told, in percent: ``recall``, the share of a
question's evidence among the first k turns, averaged; ``any``, questions with at least one evidence turn there; and
``all``, questions with every one.
"""

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from precog.config import Retrieval
from precog.encoders import Encoder
from precog.errors import InputError, UsageError
from precog.evaluate.locomo_retrieval import (
    DEPTH,
    KEY_TEXTS,
    CachedKeys,
    Conversation,
    Found,
    PartSearch,
    ProbeBy,
    Routed,
    conversation_of,
)
from precog.memory.chunking import MemoryChunk, chunks_of
from precog.memory.domains import read_seeds
from precog.memory.fit import FitSettings, fit
from precog.memory.keyed import Keyed
from precog.memory.prototypes import Prototypes, from_seeds
from precog.memory.routing import FITTED_TEMPERATURE, TEMPERATURE, THRESHOLD
from precog.memory.settings import MemorySettings
from precog.memory.transcript import CATEGORIES, LocomoQuestion, locomo_questions, read_transcript
from precog.text.tokenizer import load_mistral_tokenizer

PROBE_BY: tuple[ProbeBy, ...] = ("prototype", "members", "words")
UNROUTED = "no sub-cluster, joined"
"""The words' best few alone, sorted by meaning and words: what ``joined`` finds without any routing."""
AT = (1, 5, 10)
WHOLE: tuple[Retrieval, ...] = ("hybrid", "dense", "bm25")
PART: tuple[PartSearch, ...] = ("hybrid", "dense", "joined")
PROBES = (1, 2, 4, 8, 16, 24)
PROTOTYPES = ("seeds", "fitted")
FITTED_PER_DOMAIN = 10
MARGIN, MOST_SEARCHED = 2.0, 0.5
CHUNK_TOKENS = MemorySettings("", "", "").chunk_tokens

OnStep = Callable[[str, int, int], None]
"""Called with what is done, how many, and of how many."""


@dataclass(frozen=True)
class LocomoSettings:
    """What is measured.

    Attributes:
        probes: numbers of sub-clusters searched, rising.
        keys: what turns are searched by, of `KEY_TEXTS`; routing is measured with the first.
        prototypes: of `PROTOTYPES`.
        seed: of k-means and of the choice of questions to be answered.
        zone: of the file's dates.
    """

    probes: tuple[int, ...] = PROBES
    keys: tuple[str, ...] = ("memory",)
    prototypes: tuple[str, ...] = PROTOTYPES
    seed: int = 0
    zone: datetime.tzinfo = field(default=datetime.UTC)

    def __post_init__(self) -> None:
        if not self.probes or min(self.probes) < 1 or list(self.probes) != sorted(set(self.probes)):
            raise UsageError("--probes are rising numbers of sub-clusters", given=str(self.probes), expected="1,2,4")
        for name, given, known in (
            ("--keys", self.keys, tuple(KEY_TEXTS)),
            ("--prototypes", self.prototypes, PROTOTYPES),
        ):
            wrong = [entry for entry in given if entry not in known]
            if wrong or len(set(given)) != len(given) or (name == "--keys" and not given):
                raise UsageError(f"{name}: no such choice, or twice", given=", ".join(given), expected=", ".join(known))


@dataclass(frozen=True, eq=False)
class Locomo:
    """A file of conversations with questions.

    Attributes:
        chunks: of each conversation.
        questions: all, in the file's order.
    """

    chunks: dict[str, tuple[MemoryChunk, ...]]
    questions: tuple[LocomoQuestion, ...]

    @property
    def with_evidence(self) -> tuple[LocomoQuestion, ...]:
        """What recall is measured on."""
        return tuple(question for question in self.questions if question.evidence)


def read_locomo(path: Path, zone: datetime.tzinfo) -> Locomo:
    """Reads conversations and questions.

    Raises:
        InputError: the file cannot be read, a question is about a conversation that is not in it, or none has evidence.
    """
    questions = locomo_questions(path)
    sessions = read_transcript(path, zone=zone).conversations
    strange = next((q for q in questions if q.conversation not in sessions), None)
    if strange is not None:
        raise InputError(f"{path}: a question is about no conversation of the file", given=strange.id)
    if not any(question.evidence for question in questions):
        raise InputError(f"{path}: no question names its evidence", given=f"{len(questions)} questions")
    tokenizer = load_mistral_tokenizer()
    chunks = {
        name: tuple(chunks_of((u for s in own for u in s.utterances), tokenizer, max_tokens=CHUNK_TOKENS))
        for name, own in sessions.items()
    }
    return Locomo(chunks, questions)


@dataclass(frozen=True)
class Row:
    """One way to search, measured over all questions.

    Attributes:
        name: such as ``flat hybrid`` or ``seeds, 8 by members, dense``.
        prototypes: "" for the whole.
        probe_by: one of `PROBE_BY`; "" for the whole.
        probes: sub-clusters searched; 0 for all.
        search: how what is searched is searched.
    """

    name: str
    prototypes: str
    probe_by: str
    probes: int
    search: str


@dataclass(eq=False)
class _Tally:
    found: list[tuple[str, dict[int, float]]] = field(default_factory=list)
    fractions: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, question: LocomoQuestion, references: Sequence[str], found: Found, extra_sec: float = 0.0) -> None:
        shares = {}
        for k in AT:
            seen = {references[row] for row in found.rows[:k]}
            shares[k] = sum(reference in seen for reference in question.evidence) / len(question.evidence)
        self.found.append((question.category_name, shares))
        self.fractions.append(found.fraction_searched)
        self.seconds.append(found.seconds + extra_sec)

    def to_json(self) -> dict[str, object]:
        def recalls(shares: Sequence[dict[int, float]]) -> dict[str, object]:
            measures: dict[str, Callable[[float], float]] = {
                "recall": lambda share: share,
                "any": lambda share: float(share > 0),
                "all": lambda share: float(share == 1),
            }
            return {
                name: {str(k): 100 * float(np.mean([of(share[k]) for share in shares])) for k in AT}
                for name, of in measures.items()
            }

        categories = {
            name: own
            for name in CATEGORIES.values()
            if (own := [shares for kind, shares in self.found if kind == name])
        }
        return {
            **recalls([shares for _, shares in self.found]),
            "fraction_searched": float(np.mean(self.fractions)),
            "median_search_sec": float(np.median(self.seconds)),
            "by_category": {name: {"n": len(own), **recalls(own)} for name, own in categories.items()},
        }


def recall_of(
    data: Locomo, encoder: Encoder, settings: LocomoSettings, on_step: OnStep = lambda _what, _done, _of: None
) -> dict[str, object]:
    """Measure every way of searching on every question with evidence.

    Returns:
        ``rows`` (one per way), ``verdict``, ``keys`` (recall of the whole by each kind of text), ``median_encode_sec``.
    """
    most = sum(map(len, data.chunks.values())) * len(settings.keys)
    encoded = 0

    def on_text(number: int) -> None:
        nonlocal encoded
        encoded += number
        on_step("turns", encoded, most)

    cached = CachedKeys(encoder, on_text)
    made = {
        keys: {name: conversation_of(name, own, cached.passages, keys) for name, own in data.chunks.items()}
        for keys in settings.keys
    }
    conversations = made[settings.keys[0]]
    routed = {kind: _routed(kind, conversations, encoder, settings) for kind in settings.prototypes}
    tallies: dict[Row, _Tally] = {}
    by_keys = {keys: {how: _Tally() for how in WHOLE} for keys in settings.keys}
    unrouted, nothing = _Tally(), np.zeros(0, np.int64)
    encode_sec = []
    for done, question in enumerate(data.with_evidence, 1):
        started = time.perf_counter()
        key = encoder.encode_query(question.question)
        encode_sec.append(time.perf_counter() - started)
        for keys, others in made.items():
            searched = others[question.conversation]
            for how in WHOLE:
                found = searched.search(question.question, key, how)
                by_keys[keys][how].add(question, searched.references, found)
        conversation = conversations[question.conversation]
        references = conversation.references
        unrouted.add(question, references, conversation.search_part(question.question, key, nothing, "joined"))
        for kind, of in routed.items():
            for by in PROBE_BY:
                started = time.perf_counter()
                worded = conversation.index.by_words(question.question, DEPTH) if by == "words" else None
                ranked = of[question.conversation].ranked(key, by, worded)
                probe_sec = time.perf_counter() - started
                for number in settings.probes:
                    rows = of[question.conversation].groups.part(ranked[:number])
                    for manner in PART:
                        row = Row(f"{kind}, {number} by {by}, {manner}", kind, by, number, manner)
                        found = conversation.search_part(question.question, key, rows, manner)
                        tallies.setdefault(row, _Tally()).add(question, references, found, probe_sec)
        on_step("questions", done, len(data.with_evidence))
    first = by_keys[settings.keys[0]]
    whole = {Row(f"flat {how}", "", "", 0, how): first[how] for how in WHOLE}
    whole[Row(UNROUTED, "", "", 0, "joined")] = unrouted
    measured = [(row, tally.to_json()) for row, tally in (whole | tallies).items()]
    return {
        "rows": [{**asdict(row), **figures} for row, figures in measured],
        "verdict": verdict(measured),
        "keys": {keys: {how: tally.to_json() for how, tally in own.items()} for keys, own in by_keys.items()},
        "median_encode_sec": float(np.median(encode_sec)),
    }


def verdict(rows: Sequence[tuple[Row, Mapping[str, object]]]) -> dict[str, object]:
    """Whether routing loses little while it searches little, by how the part is searched.

    Returns:
        Flat hybrid search's recall at 5 (``flat``), the ``margin`` in points, the ``most_searched`` that counts; and in
        ``by_search``, of the ways that search at most that, the best: its name, recall at 5, share searched, whether it
        ``holds``, being at most the margin below; the recall of searching everything in the same way (``same_flat``),
        and whether it ``holds_against_same``; for ``joined``, also what is found without routing (``unrouted``). None
        where no way searches so little.
    """
    whole = {row.name: _recall_at_5(measured) for row, measured in rows if not row.probes}
    flat = whole["flat hybrid"]
    best: dict[str, object] = {}
    for how in PART:
        frugal = [
            (row, measured)
            for row, measured in rows
            if row.probes and row.search == how and cast(float, measured["fraction_searched"]) <= MOST_SEARCHED
        ]
        if not frugal:
            best[how] = None
            continue
        row, measured = max(frugal, key=lambda entry: _recall_at_5(entry[1]))
        recall, same = _recall_at_5(measured), whole["flat dense" if how == "dense" else "flat hybrid"]
        best[how] = {
            "name": row.name,
            "recall_at_5": recall,
            "fraction_searched": measured["fraction_searched"],
            "holds": recall >= flat - MARGIN,
            "same_flat": same,
            "holds_against_same": recall >= same - MARGIN,
            "unrouted": whole[UNROUTED] if how == "joined" else None,
        }
    return {"flat": flat, "margin": MARGIN, "most_searched": MOST_SEARCHED, "by_search": best}


def _recall_at_5(measured: Mapping[str, object]) -> float:
    return cast(dict[str, float], measured["recall"])["5"]


def _routed(
    kind: str, conversations: Mapping[str, Conversation], encoder: Encoder, settings: LocomoSettings
) -> dict[str, Routed]:
    seeds = from_seeds(read_seeds(), encoder)
    routed = {}
    for name, conversation in conversations.items():
        prototypes = _fitted(conversation, seeds, settings.seed) if kind == "fitted" else seeds
        temperature = FITTED_TEMPERATURE if kind == "fitted" else TEMPERATURE
        routed[name] = Routed.of(conversation, prototypes, temperature=temperature, threshold=THRESHOLD)
    return routed


def _fitted(conversation: Conversation, seeds: Prototypes, seed: int) -> Prototypes:
    times = [chunk.utterance.time for chunk in conversation.chunks]
    deposits = Keyed(
        tuple(range(len(conversation.chunks))),
        conversation.mean_keys,
        tuple(chunk.key_text() for chunk in conversation.chunks),
        tuple(None if moment is None else moment.date() for moment in times),
    )
    return fit(deposits, seeds, FitSettings(per_domain=FITTED_PER_DOMAIN, seed=seed))
