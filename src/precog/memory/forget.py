"""Forgetting deposits, with a proof: every byte of the memory's folder is searched for what they left.

What was made of them goes with them: their states and keys, the semantic state of their sub-cluster (folded anew from
what is left, bit-equal to one that never saw them, ERRATA 14), a fit that has read them and groups that were promoted
(made again on what is left, and every deposit routed by them), the index.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import UInt8

from precog.errors import DamagedStateError
from precog.memory.opened import OpenMemory
from precog.memory.purge import UNREACHABLE
from precog.memory.recall import refresh_index
from precog.memory.remake import without
from precog.memory.reroute import refold_groups
from precog.store import Needles, search_folder
from precog.store.memory import Deposit, Group
from precog.store.needles import MIN_BYTES

_WINDOW_BYTES = 64
_WORDS_CHARS = 48
_WHOLE_STATES = 64
"""Of so many deposits every window of their states is searched for; of more, some windows of each."""
_SAMPLED_WINDOWS = 16


@dataclass(frozen=True)
class Forgotten:
    """What was forgotten, and what the search for it found.

    Attributes:
        ids: of the deposits.
        uids: hashes that name what they said, in the same order; a receipt that says nothing of it.
        rebuilt: sub-clusters whose semantic state was folded anew.
        dropped: what else was made of them and is gone.
        files_searched: every file of the memory's folder; 0 when no proof was asked for.
        bytes_searched: their sizes, summed.
        searched_for: distinct byte strings.
        hits: how many of them are still somewhere: 0, or something is wrong.
        hit_files: where.
        outside: what says some of the same, or cannot be searched.
    """

    ids: tuple[int, ...]
    uids: tuple[str, ...]
    rebuilt: tuple[Group, ...]
    dropped: tuple[str, ...]
    files_searched: int = 0
    bytes_searched: int = 0
    searched_for: int = 0
    hits: int = 0
    hit_files: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "forgotten": list(self.ids),
            "hashes": list(self.uids),
            "rebuilt": [" ▸ ".join(group) for group in self.rebuilt],
            "dropped": list(self.dropped),
            "files_searched": self.files_searched,
            "bytes_searched": self.bytes_searched,
            "searched_for": self.searched_for,
            "hits": self.hits,
            "hit_files": self.hit_files,
            "outside": self.outside,
        }


def forget(memory: OpenMemory, deposits: list[Deposit], *, proof: bool) -> Forgotten:
    """Forget deposits and all that was made of them, and search for it.

    Args:
        memory: open to write.
        deposits: of it.
        proof: search every file of the memory.

    Raises:
        BusyError: a reader still holds what was deleted; the next writer goes on.
        StorageError: the disk refuses.
    """
    store = memory.store
    ids = [deposit.id for deposit in deposits]
    said, states = (_said(memory, deposits), _states(memory, deposits)) if proof and ids else (set(), set())
    with store.batch() as batch:
        made = without(memory, batch, deposits)
        rebuilt, dropped = refold_groups(memory, batch, made.groups, made.prototypes)
    memory.prototypes = made.prototypes
    dropped += made.dropped
    store.drop_index()
    refresh_index(store, memory.settings.encoder_fingerprint)
    store.scrub()
    uids = tuple(deposit.info.uid.hex() for deposit in deposits)
    report = Forgotten(tuple(ids), uids, tuple(rebuilt), tuple(dropped))
    if not proof:
        return report
    needles, also = _told_apart(memory, said, states)
    found = search_folder(store.path, needles)
    return replace(
        report,
        files_searched=found.files_searched,
        bytes_searched=found.bytes_searched,
        searched_for=found.searched_for,
        hits=found.hits,
        hit_files=found.hit_files,
        outside=[*also, *UNREACHABLE],
    )


def _said(memory: OpenMemory, deposits: Iterable[Deposit]) -> set[bytes]:
    """What they said, in windows that cover it, as text and as token ids; and their keys."""
    width = f"<u{memory.store.layout.token_width}"
    said: set[bytes] = set()
    ids = []
    for deposit in deposits:
        ids.append(deposit.id)
        info = deposit.info
        for text in (info.text, info.header + info.text, info.key_text):
            said |= {text[at : at + _WORDS_CHARS].encode() for at in range(0, len(text), _WORDS_CHARS)}
        tokens = np.array(memory.backbone.tokenizer.encode(info.header + info.text), width)
        said |= {tokens[at : at + 16].tobytes() for at in range(0, len(tokens), 16)}
    for entry in memory.store.iter_keys(ids):
        for dtype in ("<f4", "<f2"):  # in the catalogue, and in the index
            said |= {vector.astype(dtype).tobytes()[:_WINDOW_BYTES] for vector in entry.keys}
    return {text for text in said if len(text) >= MIN_BYTES}


def _states(memory: OpenMemory, deposits: list[Deposit]) -> set[bytes]:
    """Windows of their states at every position of the dial, and of the semantic states that have read them."""
    store = memory.store
    windows: set[bytes] = set()
    for deposit in deposits:
        for position in store.states_of(deposit.id):
            try:
                record = store.read_state(deposit.id, position)
            except DamagedStateError:  # what is damaged cannot be searched for, and goes all the same
                continue
            if record is not None:
                windows |= _windows(record.state, whole=len(deposits) <= _WHOLE_STATES)
    for group in {deposit.info.group for deposit in deposits}:
        semantic = store.semantic(*group)
        if semantic is not None:
            windows |= _windows(semantic.recurrent.view(np.uint8), whole=True)
    return windows


def _windows(data: UInt8[np.ndarray, " n"], *, whole: bool) -> set[bytes]:
    starts = range(0, len(data) - _WINDOW_BYTES + 1, _WINDOW_BYTES)
    step = 1 if whole else max(1, len(starts) // _SAMPLED_WINDOWS)
    return {data[at : at + _WINDOW_BYTES].tobytes() for at in starts[::step]}


def _told_apart(memory: OpenMemory, said: set[bytes], states: set[bytes]) -> tuple[Needles, list[str]]:
    """The byte strings that nothing else in the memory accounts for, and which deposits account for the others."""
    store = memory.store
    words, windows = Needles(said), Needles(states)
    elsewhere: set[bytes] = set()
    also: list[str] = []
    width = f"<u{store.layout.token_width}"
    for deposit in store.deposits():
        info = deposit.info
        found: set[bytes] = set()
        for text in (info.header + info.text, info.key_text):
            found |= words.found_in(text.encode())
        found |= words.found_in(np.array(memory.backbone.tokenizer.encode(info.header + info.text), width).tobytes())
        if found:
            also.append(f"deposit {deposit.id} says some of the same")
            elsewhere |= found
            for position in store.states_of(deposit.id):
                record = store.read_state(deposit.id, position)
                if record is not None:
                    elsewhere |= windows.found_in(record.state.tobytes())
    for entry in store.iter_keys():
        for dtype in ("<f4", "<f2"):
            elsewhere |= words.found_in(entry.keys.astype(dtype).tobytes())
    return Needles((said | states) - elsewhere), also
