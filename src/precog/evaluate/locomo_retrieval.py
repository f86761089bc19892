"""One conversation as a memory in DRAM: searched whole, or only in the sub-clusters nearest to a question.

The whole is searched as ``precog memory recall`` does, with the same index. A part is searched by meaning, by meaning
and words with the same fusion, or by meaning in the part joined with the words' best of everything (``joined``): there
the texts outside the part that the words bring up count as searched.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

from precog.config import Retrieval
from precog.encoders import Encoder
from precog.errors import UsageError
from precog.index import HybridIndex, IndexSource, Worded
from precog.memory.chunking import MemoryChunk
from precog.memory.moment import in_words
from precog.memory.preceding import Said, preceding, with_preceding
from precog.memory.probing import Groups
from precog.memory.prototypes import Prototypes, mean_key
from precog.memory.routing import Group, probe, route_all

PartSearch = Literal["hybrid", "dense", "joined"]
ProbeBy = Literal["prototype", "members", "words"]
DEPTH = 10
"""Texts that a search brings back: recall is measured up to here."""
_WORD_CANDIDATES = 32

KeyText = Callable[[MemoryChunk, Said | None], str]


def _own(chunk: MemoryChunk, _before: Said | None) -> str:
    return chunk.key_text()


def _with_turn_before(chunk: MemoryChunk, before: Said | None) -> str:
    return with_preceding(chunk.key_text(), before)


def _with_day(chunk: MemoryChunk, _before: Said | None) -> str:
    moment = chunk.utterance.time
    return chunk.key_text() + ("" if moment is None else f" ({in_words(moment.date().isoformat())})")


def _spoken(chunk: MemoryChunk, _before: Said | None) -> str:
    return f"{chunk.utterance.speaker}: {chunk.utterance.text}" if chunk.utterance.speaker else chunk.utterance.text


KEY_TEXTS: dict[str, tuple[KeyText, KeyText]] = {
    "memory": (_own, _with_turn_before),
    "own": (_own, _own),
    "text": (lambda chunk, _before: chunk.utterance.text,) * 2,
    "speaker": (_spoken, _spoken),
    "day": (_with_day, _with_day),
    "day-words": (_own, _with_day),
    "before": (_with_turn_before, _with_turn_before),
    "before-meaning": (_with_turn_before, _own),
}
"""What a turn is searched by, for its meaning and for its words: ``memory`` is what a memory does (speaker, text,
resolved dates; its words also those of the turn before it); ``own`` leaves that turn out, ``before`` has it in both
halves, ``before-meaning`` in the meaning alone; the others leave it out, too: ``text`` has the text alone, ``speaker``
no dates, ``day`` also the day it was said on, and ``day-words`` that among the words alone."""


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
    """A conversation of N chunks, which are their own ids.

    Attributes:
        name: of the conversation.
        chunks: in order.
        mean_keys: [N, E], what is routed.
        index: what searches the whole.
    """

    name: str
    chunks: tuple[MemoryChunk, ...]
    mean_keys: Float32[np.ndarray, "N E"]
    index: HybridIndex

    @property
    def references(self) -> tuple[str, ...]:
        """The turn that each chunk is of."""
        return tuple(chunk.utterance.reference or "" for chunk in self.chunks)

    def search(self, question: str, key: Float32[np.ndarray, " E"], how: Retrieval) -> Found:
        """Search all of it."""
        started = time.perf_counter()
        hits = self.index.search(question, key, DEPTH, retrieval=how)
        return Found(tuple(hit.chunk_id for hit in hits), 1.0, time.perf_counter() - started)

    def search_part(
        self, question: str, key: Float32[np.ndarray, " E"], rows: Int64[np.ndarray, " n"], how: PartSearch
    ) -> Found:
        """Search some rows only, rising."""
        started = time.perf_counter()
        if how == "dense":
            best = np.argsort(-self.index.dense.part_scores(key, rows), kind="stable")[:DEPTH]
            found = rows[best].tolist()
        else:
            worded = self.index.by_words(question, DEPTH)
            if how == "joined":
                best = np.argsort(-worded.scores, kind="stable")[:_WORD_CANDIDATES]
                rows = np.union1d(rows, best[worded.scores[best] > 0])
            found = [hit.chunk_id for hit in self.index.search_part(worded, key, DEPTH, rows)]
        return Found(tuple(found), len(rows) / len(self.chunks), time.perf_counter() - started)


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
    pairs = list(zip(chunks, preceding(map(Said.of_chunk, chunks)), strict=True))
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
    means = np.stack([mean_key(windows) for windows in keys])
    return Conversation(name, tuple(chunks), means, HybridIndex.build(source))


@dataclass(frozen=True, eq=False)
class Routed:
    """The sub-clusters of a conversation.

    Attributes:
        prototypes: that it was routed by.
        groups: those that are not empty.
    """

    prototypes: Prototypes
    groups: Groups

    @classmethod
    def of(
        cls, conversation: Conversation, prototypes: Prototypes, *, temperature: float, threshold: float
    ) -> "Routed":
        """Routes every chunk as a memory does."""
        routes = route_all(conversation.mean_keys, prototypes, temperature=temperature, threshold=threshold)
        members: dict[Group, list[int]] = {}
        for row, found in enumerate(routes):
            members.setdefault((found.domain, found.subcluster), []).append(row)
        rows = {group: np.array(members[group], dtype=np.int64) for group in sorted(members)}
        return cls(prototypes, Groups.of((group, own, conversation.mean_keys[own]) for group, own in rows.items()))

    def ranked(self, key: Float32[np.ndarray, " E"], by: ProbeBy, worded: Worded | None = None) -> list[Group]:
        """The sub-clusters that are not empty, the nearest to a question first.

        Args:
            key: the question's.
            by: how near a sub-cluster is: as its ``prototype``, as the mean of its ``members``, or by ``words``, too,
                as a memory that is probed does.
            worded: what the question's words say; for ``words``.
        """
        if by == "prototype":
            most = len(self.prototypes.subclusters) + len(self.prototypes.domains)
            return [group for group in probe(key, self.prototypes, most) if group in self.groups.members]
        if by == "members":
            return probe(key, self.prototypes, len(self.groups.means), self.groups.means)
        assert worded is not None, "sub-clusters are compared by words too"
        return self.groups.ranked(key, worded)


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
