"""Forgetting deposits, with a proof: every byte of the memory's folder is searched for what they left.

What was made of them goes with them: their states and keys, the semantic state of their sub-cluster (folded anew from
what is left, bit-equal to one that never saw them, ERRATA 14), a fit that has read them and groups that were promoted
(made again on what is left, and every deposit routed by them), the index.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
from jaxtyping import UInt8

from precog.errors import DamagedCorpusError, DamagedStateError, PrecogError, StorageError
from precog.memory.damage import SOUND, Damage, damage_of, finish_forgetting, unfinished
from precog.memory.opened import OpenMemory
from precog.memory.purge import UNREACHABLE
from precog.memory.recall import refreshed_or_why
from precog.memory.remake import without
from precog.memory.reroute import refold_groups
from precog.store import Needles, Record, SearchReport, search_folder
from precog.store.failure import acknowledged
from precog.store.memory import Deposit, Group
from precog.store.numbered import INDEX_FILES
from precog.store.proof import OnBytes

_WORDS_CHARS = 48
_WORDS_TOKENS = 16
_SAID_AGAIN = "says some of the same"
_KEY_DTYPES = ("<f4", "<f2")  # in the catalogue, and in the index


@dataclass(frozen=True)
class Forgotten:
    """What was forgotten, and what the search for it found.

    Attributes:
        ids: of the deposits.
        uids: hashes that name what they said, in the same order; a receipt that says nothing of it.
        rebuilt: sub-clusters whose semantic state was folded anew.
        dropped: what else was made of them and is gone.
        restored: deposits that hold again, because all that had superseded them is gone.
        files_searched: every file of the memory's folder; 0 when no proof was asked for.
        bytes_searched: their sizes, summed.
        searched_for: distinct byte strings.
        hits: how many of them are still somewhere: 0, or something is wrong.
        hit_files: where.
        outside: what says some of the same, or cannot be searched.
        index_left: index files that cannot be removed, and may hold words that were forgotten.
        unerased: places of its states that cannot be overwritten, because the segment file there is damaged.
        damage: what else was found damaged on the way, the index that cannot be written included.
    """

    ids: tuple[int, ...]
    uids: tuple[str, ...]
    rebuilt: tuple[Group, ...]
    dropped: tuple[str, ...]
    restored: tuple[int, ...] = ()
    files_searched: int = 0
    bytes_searched: int = 0
    searched_for: int = 0
    hits: int = 0
    hit_files: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    index_left: tuple[str, ...] = ()
    unerased: tuple[str, ...] = ()
    damage: Damage = SOUND

    @property
    def is_complete(self) -> bool:
        """Whether nothing was found, and nothing is known to be left."""
        return not (self.hits or self.index_left or self.unerased)

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "forgotten": list(self.ids),
            "hashes": list(self.uids),
            "rebuilt": [" ▸ ".join(group) for group in self.rebuilt],
            "dropped": list(self.dropped),
            "restored": list(self.restored),
            "files_searched": self.files_searched,
            "bytes_searched": self.bytes_searched,
            "searched_for": self.searched_for,
            "hits": self.hits,
            "hit_files": self.hit_files,
            "outside": self.outside,
            "index_left": list(self.index_left),
            "unerased": list(self.unerased),
            **self.damage.to_json(),
        }

    @property
    def said_again(self) -> tuple[int, ...]:
        """Deposits that say some of the same."""
        return tuple(int(name.split()[1]) for name in self.outside if name.endswith(_SAID_AGAIN))

    @property
    def not_searched(self) -> tuple[str, ...]:
        """What the search does not come near."""
        return tuple(name for name in self.outside if not name.endswith(_SAID_AGAIN))


def forget(
    memory: OpenMemory,
    deposits: list[Deposit],
    *,
    proof: bool,
    damaged: Sequence[int] = (),
    on_bytes: OnBytes = lambda done, total: None,
) -> Forgotten:
    """Forget deposits and all that was made of them, and search for it.

    Args:
        memory: open to write.
        deposits: of it.
        proof: search every file of the memory for every window of their texts, keys and states, however many.
        damaged: ids of deposits that go, too, and are not what was written, or lost but for parts, or were forgotten by
            a run that was interrupted: what they said cannot be searched for.
        on_bytes: told how far the search is.

    What an earlier run has forgotten, but not overwritten or not found gone, is finished and searched for along with
    it, by hashes that were kept of it: what it said is known no more.

    Raises:
        BusyError: a reader still holds what was deleted; it is forgotten, and the next writer goes on.
        StorageError: the disk refuses; whether it is forgotten all the same, the message says.
    """
    store = memory.store
    ids = sorted([*(deposit.id for deposit in deposits), *damaged])
    before = store.unfinished()
    damaged = [number for number in damaged if number not in before]
    noted = sorted({*ids, *before})
    marks = [bytes.fromhex(mark) for found in before.values() for mark in found]
    needles = _needles(memory, deposits if proof else [], damaged if proof else [], marks if proof else [])
    then = finish_forgetting(ids or noted or [0])
    with store.batch() as batch:
        batch.note_unfinished(number for number in ids if number not in before)
        made = without(memory, batch, deposits, damaged)
        rebuilt, dropped = refold_groups(memory, batch, made.groups, made.prototypes)
    memory.prototypes = made.prototypes
    dropped += made.dropped
    with acknowledged("forgotten, but not yet overwritten", then):
        kept, unwritten = _without_index(memory)
        store.scrub()
    others = (
        damage_of(store, told_unfinished=False)
        + memory.damage
        + Damage(others=() if unwritten is None else (unwritten,))
    )
    uids = tuple(deposit.info.uid.hex() for deposit in deposits)
    report = Forgotten(tuple(ids), uids, tuple(rebuilt), tuple(dropped), made.restored)
    report = replace(report, index_left=kept, unerased=tuple(map(str, store.unerased)), damage=others)
    if proof:
        with acknowledged("forgotten and overwritten, but not yet searched for", then):
            found = search_folder(store.path, needles, lambda: _left(memory), on_bytes)
        report = _searched(report, found, [*damaged, *before])
    if report.is_complete:
        with contextlib.suppress(StorageError):  # it is told again as not settled, and searched for again
            store.settle_unfinished(noted)
    return replace(report, damage=report.damage + Damage(others=unfinished(store)))


def _searched(report: Forgotten, found: SearchReport, unsaid: Sequence[int]) -> Forgotten:
    return replace(
        report,
        files_searched=found.files_searched,
        bytes_searched=found.bytes_searched,
        searched_for=found.searched_for,
        hits=found.hits,
        hit_files=found.hit_files,
        outside=[*found.also, *(f"what deposit {number} said, which is not known" for number in unsaid), *UNREACHABLE],
    )


def _without_index(memory: OpenMemory) -> tuple[tuple[str, ...], str | None]:
    """Makes the index anew; returns old files that cannot be removed, and why the new ones are not written."""
    store = memory.store
    try:
        store.drop_index()
    except PrecogError:
        return tuple(str(store.folder / name) for name in INDEX_FILES if (store.folder / name).exists()), None
    return (), refreshed_or_why(store, memory.settings.encoder_fingerprint)


def _needles(
    memory: OpenMemory, deposits: list[Deposit], damaged: Sequence[int], marks: Sequence[bytes] = ()
) -> Needles:
    """All that they left: what they said as text and as token ids, and every window of their keys and states.

    Of damaged ones what stands there now, word for word: what they said before the damage nobody knows.
    """
    strings = {window for deposit in deposits for window in _said(memory, deposit)}
    raw = [part for number in damaged for part in memory.store.raw_parts(number)]
    strings.update(marks)
    strings.update(part[at : at + _WORDS_CHARS] for part in raw for at in _cover(len(part), _WORDS_CHARS))
    return Needles(strings, chain(_keys(memory, deposits), _states(memory, deposits, damaged)))


def _said(memory: OpenMemory, deposit: Deposit) -> Iterator[bytes]:
    info = deposit.info
    for text in (info.text, info.header + info.text, info.key_text):
        for at in _cover(len(text), _WORDS_CHARS):
            yield _utf8(text[at : at + _WORDS_CHARS])
    tokens = _tokens(memory, deposit)
    for at in _cover(len(tokens), _WORDS_TOKENS):
        yield tokens[at : at + _WORDS_TOKENS].tobytes()


def _cover(length: int, size: int) -> list[int]:
    """Where windows begin that together cover something; the last one ends where it ends."""
    return [*range(0, length - size, size), max(0, length - size)]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _tokens(memory: OpenMemory, deposit: Deposit) -> npt.NDArray[np.unsignedinteger]:
    ids = memory.backbone.tokenizer.encode(deposit.info.header + deposit.info.text)
    return np.array(ids, f"<u{memory.store.layout.token_width}")


def _keys(memory: OpenMemory, deposits: list[Deposit]) -> Iterator[UInt8[np.ndarray, " n"]]:
    for entry in memory.store.iter_keys([deposit.id for deposit in deposits], only_sound=True):
        for dtype in _KEY_DTYPES:
            for vector in entry.keys.astype(dtype):
                yield vector.view(np.uint8)


def _states(memory: OpenMemory, deposits: list[Deposit], damaged: Sequence[int]) -> Iterator[UInt8[np.ndarray, " n"]]:
    """Their states at every position of the dial, and the semantic states that have read them."""
    for number in (*(deposit.id for deposit in deposits), *damaged):
        # what is damaged cannot be searched for, and goes all the same
        for record in _records(memory, number):
            yield record.state
            yield record.tau.view(np.uint8)
    groups = {deposit.info.group for deposit in deposits} | memory.store.orphaned_semantic()
    for semantic in memory.store.semantic_states():
        # nobody knows which one a damaged deposit was in
        if not isinstance(semantic, DamagedCorpusError) and (damaged or semantic.group in groups):
            yield semantic.recurrent.view(np.uint8)
            yield semantic.decay_time.view(np.uint8)


def _records(memory: OpenMemory, deposit_id: int) -> Iterator[Record]:
    for position in memory.store.states_of(deposit_id):
        with contextlib.suppress(DamagedStateError, DamagedCorpusError):
            record = memory.store.read_state(deposit_id, position)
            if record is not None:
                yield record


def _left(memory: OpenMemory) -> Iterator[tuple[str, npt.NDArray[np.generic] | bytes]]:
    """All that stays in the memory, and whose it is."""
    store = memory.store
    for deposit in store.checked_deposits():
        if isinstance(deposit, DamagedCorpusError):
            continue
        name = f"deposit {deposit.id} {_SAID_AGAIN}"
        info = deposit.info
        for text in (info.header + info.text, info.key_text):
            yield name, _utf8(text)
        yield name, _tokens(memory, deposit)
        yield "", info.uid
        for record in _records(memory, deposit.id):
            yield name, record.state
            yield "", record.tau
            yield "", record.content_hash
    for entry in store.iter_keys(only_sound=True):
        for dtype in _KEY_DTYPES:
            yield "", entry.keys.astype(dtype)
    for semantic in store.semantic_states():
        if not isinstance(semantic, DamagedCorpusError):
            yield "", semantic.recurrent
            yield "", semantic.decay_time
