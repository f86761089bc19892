"""Chunks of a conversation ▸ deposits: read once, routed, kept where the dial says, folded into a semantic state."""

import contextlib
import datetime
import hashlib
import json
import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from precog.engine.suffixes import build_suffix_array
from precog.engine.trajectory import trajectory
from precog.errors import DamagedCorpusError
from precog.interrupt import Interrupt
from precog.memory.chunking import MemoryChunk
from precog.memory.consolidate import folded, refold
from precog.memory.dial import Dial
from precog.memory.domains import OTHERS
from precog.memory.expiry import Expired, keep_budget
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import mean_key
from precog.memory.routing import Route
from precog.memory.settings import check_importance
from precog.state import State
from precog.store.memory import DepositInfo, Group, MemoryBatch, Semantic

T = TypeVar("T")
UNIT_DEPOSITS = 64


@dataclass(frozen=True)
class Remembered:
    """What came of some chunks.

    Attributes:
        ids: of the deposits, in order; a duplicate has the id of what it repeats.
        num_duplicates: that were there already.
        expired: states that were let go to keep the budget.
    """

    ids: tuple[int, ...]
    num_duplicates: int
    expired: Expired

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "ids": list(self.ids),
            "duplicates": self.num_duplicates,
            "expired": {"ids": list(self.expired.deposit_ids), "bytes": self.expired.num_bytes},
        }


@dataclass(frozen=True)
class Telling:
    """A chunk that is to be deposited, and what is to be noted of it.

    Attributes:
        chunk: what was said.
        importance: the larger, the longer its states are kept.
        created_at: when it was first deposited, UTC seconds; None for now.
    """

    chunk: MemoryChunk
    importance: float = 0.0
    created_at: float | None = None

    def __post_init__(self) -> None:
        check_importance(self.importance)


def uid_of(chunk: MemoryChunk) -> bytes:
    """Names what was said, when, where and by whom: the same is deposited once."""
    said = chunk.utterance
    at = None if said.time is None else said.time.astimezone(datetime.UTC).isoformat()
    parts = [said.text, at, said.speaker, said.place, chunk.part, chunk.num_parts]
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def deposit(
    memory: OpenMemory,
    chunks: Iterable[MemoryChunk],
    *,
    importance: float = 0.0,
    stopped: threading.Event | None = None,
) -> Remembered:
    """Deposit chunks in order, in commit units: what is reported is on the disk.

    Args:
        memory: open to write.
        chunks: of one conversation or several.
        importance: the larger, the longer their states are kept.
        stopped: stops it as a signal does, from another thread.

    Raises:
        StorageError: the disk is full or refuses; what was acknowledged stays.
        KeyboardInterrupt: SIGINT or SIGTERM arrived, or it was stopped; the chunks that are complete are deposited.
    """
    return deposit_all(memory, (Telling(chunk, importance) for chunk in chunks), stopped)


def deposit_all(memory: OpenMemory, tellings: Iterable[Telling], stopped: threading.Event | None = None) -> Remembered:
    """The same for chunks that differ in importance or age."""
    return joined([_commit(memory, unit, stopped) for unit in units(tellings)], memory.store.state_bytes)


def joined(parts: Sequence[Remembered], kept_bytes: int) -> Remembered:
    """What came of several commit units, or of none; ``kept_bytes`` are those after the last."""
    return Remembered(
        tuple(number for part in parts for number in part.ids),
        sum(part.num_duplicates for part in parts),
        Expired(
            tuple(number for part in parts for number in part.expired.deposit_ids),
            sum(part.expired.num_bytes for part in parts),
            kept_bytes,
        ),
    )


def units(things: Iterable[T]) -> Iterator[list[T]]:
    """What is committed together."""
    left = iter(things)
    while unit := list(islice(left, UNIT_DEPOSITS)):
        yield unit


def _commit(memory: OpenMemory, tellings: Sequence[Telling], stopped: threading.Event | None) -> Remembered:
    store, settings = memory.store, memory.settings
    keys = memory.encoder.encode_passages([telling.chunk.key_text() for telling in tellings])
    semantic: dict[Group, Semantic] = {}
    ids: list[int] = []
    new: set[int] = set()
    interrupt = Interrupt(stopped)
    with interrupt.listening(), store.batch() as batch:
        for telling, vectors in zip(tellings, keys, strict=True):
            if interrupt.is_wanted:
                break
            [routed] = settings.route(mean_key(vectors)[None], memory.prototypes)
            token_ids = memory.backbone.tokenizer.encode(telling.chunk.read_text())
            info = _info(telling, routed, len(token_ids))
            deposit_id, is_new = batch.add_deposit(info, vectors)
            ids.append(deposit_id)
            if not is_new:
                continue
            new.add(deposit_id)
            states = states_along(memory, settings.dial_in(info.group, memory.prototypes), token_ids)
            keep_states(memory, batch, deposit_id, token_ids, states)
            group = info.group
            if routed.subcluster != OTHERS:  # what fits nowhere does not form what is remembered for good
                before = semantic.get(group) or _semantic_before(memory, group, new)
                last = memory.reader.kept(states[-1][1])
                semantic[group] = folded(before, deposit_id, group, last, settings.alpha, memory.backbone.spec)
        for entry in semantic.values():
            batch.put_semantic(entry)
        expired = keep_budget(store, batch, settings.budget_bytes, frozenset(new))
    if interrupt.is_wanted:  # after the commit: nothing that is complete is lost
        raise KeyboardInterrupt
    return Remembered(tuple(ids), len(ids) - len(new), expired)


def _semantic_before(memory: OpenMemory, group: Group, new: Set[int]) -> Semantic | None:
    """The semantic state of a sub-cluster without new deposits; folded anew from the others where it is not right."""
    store = memory.store
    with contextlib.suppress(DamagedCorpusError):
        found = store.semantic(*group)
        if found is not None:
            return found
    members = store.deposits(domain=group[0], subcluster=group[1], only_sound=True)
    old = (entry for entry in members if entry.id not in new)
    return refold(store, old, group, memory.settings.alpha, memory.backbone, memory.reader, memory.reread.add)


def _info(telling: Telling, routed: Route, num_tokens: int) -> DepositInfo:
    chunk = telling.chunk
    said = chunk.utterance
    details: dict[str, object] = {"part": chunk.part, "num_parts": chunk.num_parts}
    if chunk.resolved:
        details["resolved"] = [list(pair) for pair in chunk.resolved]
    return DepositInfo(
        uid=uid_of(chunk),
        text=said.text,
        header=chunk.header,
        key_text=chunk.key_text(),
        num_tokens=num_tokens,
        domain=routed.domain,
        subcluster=routed.subcluster,
        probability=routed.probability,
        importance=telling.importance,
        created_at=time.time() if telling.created_at is None else telling.created_at,
        time=said.time,
        speaker=said.speaker,
        place=said.place,
        reference=said.reference,
        details=details,
    )


def states_along(memory: OpenMemory, dial: Dial, token_ids: Sequence[int]) -> list[tuple[int, State]]:
    """The states to keep, by rising position; alone in their batch, so that reading again gives the same bits."""
    positions = dial.positions(len(token_ids))
    if len(positions) == 1:
        return [(len(token_ids), memory.backbone.encode_chunks([list(token_ids)])[0])]
    return list(zip(positions, trajectory(memory.backbone, token_ids, positions), strict=True))


def keep_states(
    memory: OpenMemory,
    batch: MemoryBatch,
    deposit_id: int,
    token_ids: Sequence[int],
    states: Sequence[tuple[int, State]],
) -> None:
    """Put states of a deposit, with their positions, into a commit unit."""
    for position, state in states:
        is_last = position == len(token_ids)
        batch.add_state(
            deposit_id,
            position,
            token_ids[:position],
            state=memory.reader.encode(state),
            tau=state.decay_time.numpy(),
            suffix_array=build_suffix_array(token_ids) if is_last else None,
        )
