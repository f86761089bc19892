"""One conversation as a memory in DRAM: searched whole, or only in the sub-clusters nearest to a question.

The whole is searched as ``precog memory recall`` does, with the same index. A part is searched by meaning, by meaning
and words with the same fusion, or by meaning in the part joined with the words' best of everything (``joined``): there
the texts outside the part that the words bring up count as searched.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

from precog.encoders import Encoder
from precog.errors import UsageError
from precog.index import HybridIndex, IndexSource
from precog.memory.chunking import MemoryChunk
from precog.memory.moment import in_words
from precog.memory.prototypes import Prototypes, mean_key
from precog.memory.routing import Group, probe, route_all

Search = Literal["hybrid", "dense", "bm25"]
PartSearch = Literal["hybrid", "dense", "joined"]
ProbeBy = Literal["prototype", "members", "words"]
DEPTH = 10
"""Texts that a search brings back: recall is measured up to here."""
_WORD_CANDIDATES = 32
_MIN_SCORE = 1e-6

KeyText = Callable[[MemoryChunk, MemoryChunk | None], str]


def _with_context(chunk: MemoryChunk, before: MemoryChunk | None) -> str:
    return chunk.key_text() if before is None else f"{before.key_text()}\n{chunk.key_text()}"


def _with_day(chunk: MemoryChunk, _before: MemoryChunk | None) -> str:
    moment = chunk.utterance.time
    return chunk.key_text() + ("" if moment is None else f" ({in_words(moment.date().isoformat())})")


def _spoken(chunk: MemoryChunk, _before: MemoryChunk | None) -> str:
    return f"{chunk.utterance.speaker}: {chunk.utterance.text}" if chunk.utterance.speaker else chunk.utterance.text


def _key(chunk: MemoryChunk, _before: MemoryChunk | None) -> str:
    return chunk.key_text()


KEY_TEXTS: dict[str, tuple[KeyText, KeyText]] = {
    "key": (_key, _key),
    "text": (lambda chunk, _before: chunk.utterance.text,) * 2,
    "speaker": (_spoken, _spoken),
    "day": (_with_day, _with_day),
    "day-words": (_key, _with_day),
    "previous": (_with_context, _with_context),
    "previous-meaning": (_with_context, _key),
    "previous-words": (_key, _with_context),
}
"""What a turn is searched by, for its meaning and for its words: ``key`` is what a memory does (speaker, text, resolved
dates); ``text`` has the words alone, ``speaker`` no dates, ``day`` also the day it was said on, ``previous`` also the
turn before it; where a name ends in ``-meaning`` or ``-words``, only that half has it."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a search brought back.

    Attributes:
        rows: of the memory, the best first.
        fraction_searched: of the texts, those whose keys were compared.
        seconds: for the search, without the question's key.
    """

    rows: tuple[int, ...]
    fraction_searched: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Conversation:
    """A conversation of N chunks with one key per window, W in all.

    Attributes:
        name: of the conversation.
        chunks: in order.
        keys: [W, E], unit norm.
        owners: [W], rising: which chunk each window is of.
        mean_keys: [N, E], what is routed.
        index: what searches the whole.
    """

    name: str
    chunks: tuple[MemoryChunk, ...]
    keys: Float32[np.ndarray, "W E"]
    owners: Int64[np.ndarray, " W"]
    mean_keys: Float32[np.ndarray, "N E"]
    index: HybridIndex

    @property
    def references(self) -> tuple[str, ...]:
        """The turn that each chunk is of."""
        return tuple(chunk.utterance.reference or "" for chunk in self.chunks)

    def search(self, question: str, key: Float32[np.ndarray, " E"], how: Search) -> Found:
        """Search all of it."""
        started = time.perf_counter()
        hits = self.index.search(question, key, DEPTH, retrieval=how)
        return Found(tuple(hit.chunk_id for hit in hits), 1.0, time.perf_counter() - started)

    def search_part(
        self, question: str, key: Float32[np.ndarray, " E"], rows: Int64[np.ndarray, " n"], how: PartSearch
    ) -> Found:
        """Search some rows only, rising."""
        started = time.perf_counter()
        words = np.zeros(0, np.float32) if how == "dense" else self.index.lexical.scores(question)
        if how == "joined":
            best = np.argsort(-words, kind="stable")[:_WORD_CANDIDATES]
            rows = np.union1d(rows, best[words[best] > 0])
        windows = np.flatnonzero(np.isin(self.owners, rows))
        cosines = np.full(len(self.chunks), -np.inf, np.float32)
        np.maximum.at(cosines, self.owners[windows], self.keys[windows] @ key)
        scores = cosines[rows]
        if how != "dense":
            of_words = words[rows]
            dense = np.maximum(scores, 0) / max(float(scores.max(initial=0)), _MIN_SCORE)
            scores = 0.5 * dense + 0.5 * of_words / max(float(of_words.max(initial=0)), _MIN_SCORE)
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        seconds = time.perf_counter() - started
        return Found(tuple(rows[order].tolist()), len(rows) / len(self.chunks), seconds)


def conversation_of(
    name: str,
    chunks: Sequence[MemoryChunk],
    encode: Callable[[list[str]], list[Float32[np.ndarray, "_ E"]]],
    texts: str,
) -> Conversation:
    """Makes the memory of a conversation.

    Args:
        name: of the conversation.
        chunks: at least one.
        encode: texts ▸ the keys of each.
        texts: a key of `KEY_TEXTS`.

    Raises:
        UsageError: there is no such kind of text.
    """
    if texts not in KEY_TEXTS:
        raise UsageError("--keys: no such text of a turn", given=texts, expected=", ".join(KEY_TEXTS))
    pairs = list(zip(chunks, [None, *chunks[:-1]], strict=True))
    meant, worded = ([of(chunk, before) for chunk, before in pairs] for of in KEY_TEXTS[texts])
    keys = encode(meant)
    source = IndexSource(
        dim=keys[0].shape[1],
        generation=0,
        tag=name,
        chunk_ids=lambda: range(len(chunks)),
        keys=lambda ids: ((i, keys[i]) for i in (range(len(chunks)) if ids is None else ids)),
        texts=lambda ids: ((i, worded[i]) for i in (range(len(chunks)) if ids is None else ids)),
    )
    owners = np.repeat(np.arange(len(keys), dtype=np.int64), [len(windows) for windows in keys])
    means = np.stack([mean_key(windows) for windows in keys])
    return Conversation(name, tuple(chunks), np.concatenate(keys), owners, means, HybridIndex.build(source))


@dataclass(frozen=True, eq=False)
class Routed:
    """The sub-clusters of a conversation.

    Attributes:
        prototypes: that it was routed by.
        rows: of each sub-cluster that is not empty, rising.
        means: mean key of the same.
    """

    prototypes: Prototypes
    rows: Mapping[Group, Int64[np.ndarray, " n"]]
    means: Mapping[Group, Float32[np.ndarray, " E"]]

    @classmethod
    def of(
        cls, conversation: Conversation, prototypes: Prototypes, *, temperature: float, threshold: float
    ) -> "Routed":
        """Routes every chunk as a memory does."""
        routes = route_all(conversation.mean_keys, prototypes, temperature=temperature, threshold=threshold)
        members: dict[Group, list[int]] = {}
        for row, found in enumerate(routes):
            members.setdefault((found.domain, found.subcluster), []).append(row)
        rows = {group: np.array(own, dtype=np.int64) for group, own in members.items()}
        return cls(prototypes, rows, {group: mean_key(conversation.mean_keys[own]) for group, own in rows.items()})

    def ranked(
        self, key: Float32[np.ndarray, " E"], by: ProbeBy, words: Float32[np.ndarray, " N"] | None = None
    ) -> list[Group]:
        """The sub-clusters that are not empty, the nearest to a question first.

        Args:
            key: the question's.
            by: how near a sub-cluster is: as its ``prototype``, as the mean of its ``members``, or ``words``: half
                that, half the best BM25 score of a member, each relative to the best sub-cluster's.
            words: BM25 score of every chunk; for ``words``.
        """
        if by == "prototype":
            most = len(self.prototypes.subclusters) + len(self.prototypes.domains)
            return [group for group in probe(key, self.prototypes, most) if group in self.rows]
        if by == "members":
            return probe(key, self.prototypes, len(self.means), self.means)
        assert words is not None, "sub-clusters are compared by words too"
        groups = list(self.means)
        near = np.maximum(np.stack([self.means[group] for group in groups]) @ key, 0)
        worded = np.array([words[self.rows[group]].max() for group in groups])
        scores = near / max(float(near.max()), _MIN_SCORE) + worded / max(float(worded.max()), _MIN_SCORE)
        return [groups[number] for number in np.argsort(-scores, kind="stable").tolist()]

    def part(self, groups: Sequence[Group]) -> Int64[np.ndarray, " n"]:
        """All rows of some sub-clusters, rising."""
        return np.sort(np.concatenate([np.zeros(0, np.int64), *(self.rows[group] for group in groups)]))


class CachedKeys:
    """Keys of texts, each encoded once; in groups, so that progress can be told.

    Args:
        encoder: makes them.
        on_text: called with the number of texts that are new.
    """

    def __init__(self, encoder: Encoder, on_text: Callable[[int], None] = lambda _number: None) -> None:
        self.encoder = encoder
        self._on_text = on_text
        self._keys: dict[str, Float32[np.ndarray, "_ E"]] = {}

    def passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        """The keys of these texts."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._keys]
        for start in range(0, len(missing), _WORD_CANDIDATES):
            group = missing[start : start + _WORD_CANDIDATES]
            self._keys.update(zip(group, self.encoder.encode_passages(group), strict=True))
            self._on_text(len(group))
        return [self._keys[text] for text in texts]
