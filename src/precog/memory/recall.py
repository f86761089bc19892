"""A question ▸ the deposits that bear on it, found by meaning and by words.

By default all of a memory is searched. With ``probes`` only the keys of the sub-clusters nearest to the question are
compared: eight of them find nearly as much in long chats; the words of all are looked up all the same
(docs/LOG.md).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from precog.encoders import Encoder
from precog.errors import PrecogError, UsageError
from precog.index import HybridIndex, IndexSource, SearchHit
from precog.interrupt import check_asked
from precog.memory.damage import SOUND, Damage, lost_of, miscounts
from precog.memory.preceding import followers, part_of, word_texts
from precog.memory.probing import Groups
from precog.store.memory import Deposit, Group, MemoryStore
from precog.text.question import check_question

_WORDS = "words of the turn before"  # in every index file's tag: one made of other words is made anew


@dataclass(frozen=True)
class Evidence:
    """One deposit that was found.

    Attributes:
        deposit: with its text.
        score: what the evidence is sorted by, in [0, 1].
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
        damage: what could not be searched, or was not shown.
    """

    evidence: tuple[Evidence, ...]
    groups: tuple[tuple[str, str], ...]
    fraction_searched: float
    encode_sec: float
    search_sec: float
    damage: Damage = SOUND

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "evidence": [found.to_json() for found in self.evidence],
            "fraction_searched": self.fraction_searched,
            "groups": [list(group) for group in self.groups],
            "timings_sec": {"encode": self.encode_sec, "search": self.search_sec},
            **self.damage.to_json(),
        }


def index_source(store: MemoryStore, encoder_fingerprint: str) -> IndexSource:
    """A memory as an index sees it; what was superseded is history, and is not searched."""

    def current(wanted: Sequence[int] | None) -> Iterable[Deposit]:
        return store.deposits(ids=wanted, superseded=False, only_sound=True)

    def keys(wanted: Sequence[int] | None) -> Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]:
        ids = [deposit.id for deposit in current(wanted)]
        return ((entry.deposit_id, entry.keys) for entry in store.iter_keys(ids, only_sound=True))

    def texts(wanted: Sequence[int] | None) -> Iterable[tuple[int, str]]:
        start, chosen = _start(store, wanted), None if wanted is None else set(wanted)
        found = word_texts(store.deposits(from_id=start, superseded=False, only_sound=True))
        return ((number, text) for number, text in found if chosen is None or number in chosen)

    def changed_by(changed: Sequence[int]) -> Iterable[int]:
        return followers(store.deposits(from_id=min(changed), superseded=False, only_sound=True), changed)

    def ids() -> Iterable[int]:
        return (deposit.id for deposit in current(None))

    tag = f"{encoder_fingerprint} {store.memory_id} {_WORDS}"
    return IndexSource(ids, keys, texts, store.generation, tag, store.key_dim, changed_by, store.commit_of)


def _start(store: MemoryStore, wanted: Sequence[int] | None) -> int:
    """From which deposit on to read, so that the turn before each of these is seen, however many parts they have."""
    first = next(iter(store.deposits(ids=[min(wanted)], only_sound=True)), None) if wanted else None
    return 0 if first is None else store.id_before(first.id, 1 + part_of(first))


def refresh_index(store: MemoryStore, encoder_fingerprint: str) -> None:
    """Brings the index files of a memory that is open to write up to date.

    Raises:
        StorageError: the disk is full or refuses; the index is made from the catalogue the next time.
    """
    HybridIndex.refresh(store.folder, index_source(store, encoder_fingerprint))


def refreshed_or_why(store: MemoryStore, encoder_fingerprint: str) -> str | None:
    """The same for those who have committed what the index is made of: that it cannot be written undoes nothing.

    Returns:
        Why it cannot be, or None; the next one who writes makes it anew, and readers do so for themselves.
    """
    try:
        refresh_index(store, encoder_fingerprint)
    except PrecogError as error:
        return f"the index is made anew the next time ({error})"
    return None


def _not_searched(store: MemoryStore, index: HybridIndex) -> Damage:
    """What holds and is not in the index: it was damaged when the index was made of it."""
    hold = store.ids_that_hold()
    unworded = np.setdiff1d(hold, index.lexical.chunk_ids).tolist()
    damaged = {*store.damaged_ids(unworded), *store.damaged_ids(superseded=True)}
    unkeyed = set(np.setdiff1d(hold, index.dense.chunk_ids).tolist()) - damaged
    # what was deposited since the index was made of it is not in it either
    unkeyed -= {entry.deposit_id for entry in store.iter_keys(sorted(unkeyed), only_sound=True)}
    return Damage(tuple(sorted(damaged)), tuple(sorted(unkeyed)), others=miscounts(store)) + lost_of(store)


class Recaller:
    """A memory, open to be searched any number of times; sees what writers commit meanwhile.

    Attributes:
        store: the memory.
    """

    def __init__(self, store: MemoryStore, encoder: Encoder) -> None:
        self.store = store
        self._encoder = encoder
        self._generation = -1
        self._index: HybridIndex | None = None
        self._groups: Groups | None = None
        self._damage = Damage()

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
            CancelledError: whoever asked has gone.
        """
        check_question(question)
        if k < 1 or probes < 0:
            given = f"--top-k {k}, --probes {probes}"
            raise UsageError("a number is out of range", given=given, expected="at least 1, and 0 or more")
        started = time.perf_counter()
        key = self._encoder.encode_query(question) if key is None else key
        encoded = time.perf_counter()
        check_asked()
        known = tuple((size.domain, size.subcluster) for size in self.store.subclusters())
        index = self._fresh_index()
        check_asked()
        if probes and probes < len(known):
            hits, fraction, groups = self._probed(index, question, key, k, probes, known)
        else:
            hits, fraction, groups = index.search(question, key, k), 1.0 if known else 0.0, known
        deposits = {
            deposit.id: deposit for deposit in self.store.deposits(ids=[hit.chunk_id for hit in hits], only_sound=True)
        }
        lost = [hit.chunk_id for hit in hits if hit.chunk_id not in deposits]  # damaged, or forgotten meanwhile
        damage = self._damage + Damage(tuple(self.store.damaged_ids(lost))) if lost else self._damage
        evidence = [Evidence(deposits[h.chunk_id], h.score, h.dense) for h in hits if h.chunk_id in deposits]
        return Recalled(tuple(evidence), groups, fraction, encoded - started, time.perf_counter() - encoded, damage)

    def _fresh_index(self) -> HybridIndex:
        if self._index is None or self.store.generation != self._generation:
            source = index_source(self.store, self._encoder.fingerprint)
            self._index, _ = HybridIndex.open(self.store.folder, source)
            self._generation, self._groups = source.generation, None
            self._damage = _not_searched(self.store, self._index)
        return self._index

    def _probed(
        self,
        index: HybridIndex,
        question: str,
        key: Float32[np.ndarray, " E"],
        k: int,
        probes: int,
        known: Sequence[Group],
    ) -> tuple[list[SearchHit], float, tuple[Group, ...]]:
        if self._groups is None:
            self._groups = Groups.of(
                (group, *self.store.keys_of([group], superseded=False, only_sound=True)) for group in known
            )
        worded = index.by_words(question, k)
        nearest = self._groups.ranked(key, worded)[:probes]
        part = self._groups.part(nearest)
        fraction = len(part) / max(1, self._groups.num_members)
        return index.search_part(worded, key, k, part), fraction, tuple(nearest)
