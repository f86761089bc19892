"""A question ▸ the deposits that bear on it, found by meaning and by words.

By default all of a memory is searched. With ``probes`` only the sub-clusters nearest to the question are, by meaning
alone: that compares fewer keys, and on long chats it loses evidence (docs/LOG.md).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from precog.encoders import Encoder
from precog.errors import UsageError
from precog.index import HybridIndex, IndexSource
from precog.memory.made_with import prototypes_of
from precog.memory.prototypes import Prototypes
from precog.memory.routing import probe
from precog.store.memory import Deposit, MemoryStore
from precog.text.question import check_question


@dataclass(frozen=True)
class Evidence:
    """One deposit that was found.

    Attributes:
        deposit: with its text.
        score: what the evidence is sorted by: in [0, 1] over all of a memory, the cosine where it is probed.
        cosine: of the question and the deposit's nearest window.
    """

    deposit: Deposit
    score: float
    cosine: float

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        info = self.deposit.info
        return {
            "id": self.deposit.id,
            "text": info.text,
            "time": None if info.time is None else info.time.isoformat(),
            "speaker": info.speaker,
            "place": info.place,
            "domain": info.domain,
            "subcluster": info.subcluster,
            "score": self.score,
        }


@dataclass(frozen=True)
class Recalled:
    """What a question brought back.

    Attributes:
        evidence: the best first.
        groups: sub-clusters that were searched.
        fraction_searched: of the keys of the memory.
        encode_sec: for the question's key.
        search_sec: for the rest.
    """

    evidence: tuple[Evidence, ...]
    groups: tuple[tuple[str, str], ...]
    fraction_searched: float
    encode_sec: float
    search_sec: float

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "evidence": [found.to_json() for found in self.evidence],
            "fraction_searched": self.fraction_searched,
            "groups": [list(group) for group in self.groups],
            "timings_sec": {"encode": self.encode_sec, "search": self.search_sec},
        }


def index_source(store: MemoryStore, encoder_fingerprint: str) -> IndexSource:
    """A memory as an index sees it; what was superseded is history, and is not searched."""

    def current(wanted: Sequence[int] | None) -> Iterable[Deposit]:
        return store.deposits(ids=wanted, superseded=False)

    def keys(wanted: Sequence[int] | None) -> Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]:
        ids = [deposit.id for deposit in current(wanted)]
        return ((entry.deposit_id, entry.keys) for entry in store.iter_keys(ids))

    def texts(wanted: Sequence[int] | None) -> Iterable[tuple[int, str]]:
        return ((deposit.id, deposit.info.key_text) for deposit in current(wanted))

    def ids() -> Iterable[int]:
        return (deposit.id for deposit in current(None))

    tag = f"{encoder_fingerprint} {store.memory_id}"
    return IndexSource(ids, keys, texts, store.generation, tag, store.key_dim)


def refresh_index(store: MemoryStore, encoder_fingerprint: str) -> None:
    """Brings the index files of a memory that is open to write up to date.

    Raises:
        StorageError: the disk is full or refuses; the index is made from the catalogue the next time.
    """
    HybridIndex.refresh(store.folder, index_source(store, encoder_fingerprint))


class Recaller:
    """A memory, open to be searched any number of times; sees what writers commit meanwhile.

    Attributes:
        store: the memory.
        prototypes: that choose the sub-clusters where only some are searched.
    """

    def __init__(self, store: MemoryStore, encoder: Encoder, prototypes: Prototypes) -> None:
        self.store = store
        self._encoder = encoder
        self._prototypes = prototypes
        self._prototypes_generation = store.generation
        self._generation = -1
        self._index: HybridIndex | None = None

    def recall(
        self, question: str, k: int, *, probes: int = 0, key: Float32[np.ndarray, " E"] | None = None
    ) -> Recalled:
        """The k best deposits for a question.

        Args:
            question: in words.
            k: most deposits.
            probes: sub-clusters to search; 0 for all.
            key: of the question, where the encoder has made it already.

        Raises:
            UsageError: the question is empty, or a number is out of range.
            InputError: the question is not valid Unicode.
        """
        check_question(question)
        if k < 1 or probes < 0:
            given = f"--top-k {k}, --probes {probes}"
            raise UsageError("a number is out of range", given=given, expected="at least 1, and 0 or more")
        started = time.perf_counter()
        key = self._encoder.encode_query(question) if key is None else key
        encoded = time.perf_counter()
        sizes = {(size.domain, size.subcluster): size.num_deposits for size in self.store.subclusters()}
        if probes and probes < len(sizes):
            found, fraction, groups = self._probed(key, k, probes, sizes)
        else:
            found, fraction, groups = self._all(question, key, k), 1.0 if sizes else 0.0, tuple(sorted(sizes))
        deposits = {deposit.id: deposit for deposit in self.store.deposits(ids=[entry[0] for entry in found])}
        evidence = [Evidence(deposits[i], score, cosine) for i, score, cosine in found if i in deposits]
        return Recalled(tuple(evidence), groups, fraction, encoded - started, time.perf_counter() - encoded)

    def _all(self, question: str, key: Float32[np.ndarray, " E"], k: int) -> list[tuple[int, float, float]]:
        if self._index is None or self.store.generation != self._generation:
            source = index_source(self.store, self._encoder.fingerprint)
            self._index, _ = HybridIndex.open(self.store.folder, source)
            self._generation = source.generation
        return [(hit.chunk_id, hit.score, hit.dense) for hit in self._index.search(question, key, k)]

    def _probed(
        self, key: Float32[np.ndarray, " E"], k: int, probes: int, sizes: dict[tuple[str, str], int]
    ) -> tuple[list[tuple[int, float, float]], float, tuple[tuple[str, str], ...]]:
        if self.store.generation != self._prototypes_generation:  # a fit may have been made since
            self._prototypes_generation = self.store.generation
            self._prototypes = prototypes_of(self.store)
        ranked = probe(key, self._prototypes, len(self._prototypes.subclusters) + len(self._prototypes.domains))
        groups = tuple([group for group in ranked if group in sizes][:probes])
        ids, keys = self.store.keys_of(groups, superseded=False)
        cosines = keys @ key
        best: dict[int, float] = {}
        for row in np.argsort(-cosines, kind="stable").tolist():
            best.setdefault(int(ids[row]), float(cosines[row]))
            if len(best) == k:
                break
        searched = sum(sizes[group] for group in groups)
        return [(i, score, score) for i, score in best.items()], searched / sum(sizes.values()), groups
