"""What of a memory is not what was written: it is left out of everything, and named with what mends it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from precog.errors import DamagedCorpusError
from precog.memory.domains import OTHERS
from precog.store.memory import FORGET, KEYS_ANEW, PROTOTYPES_ANEW, STATES_ANEW, Deposit, MemoryStore

_MOST_NAMED = 10


@dataclass(frozen=True)
class Damage:
    """Parts of a memory that were left out, or made anew from their texts.

    Attributes:
        deposits: ids of damaged deposits; nothing of them is shown or answered from.
        keys: ids of deposits whose keys are damaged: they are found by their words alone.
        states: ids of deposits whose states are damaged or gone: their texts were read again.
        others: lines about the rest.
        lost: ids of damaged deposits that a new memory does not hold any more.
    """

    deposits: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    lost: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines)

    def __add__(self, other: "Damage") -> "Damage":
        return Damage(
            _joined(self.deposits, other.deposits),
            _joined(self.keys, other.keys),
            _joined(self.states, other.states),
            tuple(dict.fromkeys((*self.others, *other.others))),
            _joined(self.lost, other.lost),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """One for each kind of damage, with what to do."""
        told = []
        if self.deposits:
            told.append(f"left out, because damaged: {_named(self.deposits)}; {FORGET}")
        if self.keys:
            told.append(f"found by words alone, because their keys are damaged: {_named(self.keys)}; {KEYS_ANEW}")
        if self.states:
            what = "read again, because their states are damaged or gone"
            told.append(f"{what}: {_named(self.states)}; {STATES_ANEW}")
        if self.lost:
            told.append(f"not taken over, because damaged: {_named(self.lost)}; only a backup holds what they said")
        return (*told, *self.others)

    def to_json(self) -> dict[str, object]:
        """As the command line prints it: two members of an object."""
        return {"damaged": list(_joined(self.deposits, self.lost)), "notes": list(self.lines)}


SOUND = Damage()
"""No damage."""


def without_damaged(deposits: Iterable[Deposit], damaged: Sequence[int]) -> Iterator[Deposit]:
    """Sound deposits as if the damaged ones had been forgotten: what one of those has superseded holds again."""
    gone = set(damaged)
    for deposit in deposits:
        is_free = deposit.superseded_by in gone
        yield replace(deposit, superseded_by=None, superseded_at=None) if is_free else deposit


def damage_of(store: MemoryStore, *, told_unfinished: bool = True) -> Damage:
    """Damaged deposits, keys and counters, and what is lost; every row of deposits and keys is read."""
    damaged = store.damaged_ids()
    return Damage(tuple(damaged), _without_keys(store, damaged), others=miscounts(store)) + lost_of(
        store, told_unfinished=told_unfinished
    )


def lost_of(store: MemoryStore, *, told_unfinished: bool = True) -> Damage:
    """Rows that are gone, as what is left of a memory tells; hardly any row is read.

    A deposit is told by its states, its keys or a semantic state, and by how many a semantic state was made of; that,
    and the prototypes, by the deposits.
    """
    told = unfinished(store) if told_unfinished else ()
    return Damage(tuple(store.orphaned_ids()), others=(*_lost_semantic(store), *lost_prototypes(store), *told))


def _lost_semantic(store: MemoryStore) -> Iterator[str]:
    groups = {(size.domain, size.subcluster) for size in store.subclusters()}
    for group in sorted(groups - store.semantic_groups()):
        # what fits nowhere has none, and damaged deposits have none alone
        if group[1] != OTHERS and any(store.deposits(domain=group[0], subcluster=group[1], only_sound=True)):
            yield f"the semantic state of {' ▸ '.join(group)} is gone; {STATES_ANEW}"
    for group, made_of, there in store.miscounted_semantic():
        members = store.deposits(domain=group[0], subcluster=group[1], only_sound=True)
        if made_of > there or made_of < sum(1 for _ in members):  # damaged ones are left out when it is made anew
            what = f"the semantic state of {' ▸ '.join(group)} was made of {made_of} deposits, and {there} are there"
            yield f"{what}: only a backup holds others; {STATES_ANEW}"


def lost_prototypes(store: MemoryStore) -> tuple[str, ...]:
    """That there are none, a line, though there are deposits, which are never routed without."""
    if store.has_prototypes or not store.subclusters():
        return ()
    return (f"the prototypes are gone; {PROTOTYPES_ANEW}",)


def unfinished(store: MemoryStore) -> tuple[str, ...]:
    """Deposits that are forgotten, and of which something may still be on the disk, a line."""
    try:
        ids = sorted(store.unfinished())
    except DamagedCorpusError as error:
        return (str(error),)
    return (f"forgotten, but not known to be overwritten: {_named(ids)}; {finish_forgetting(ids)}",) if ids else ()


def finish_forgetting(ids: Sequence[int]) -> str:
    """What to do about a deposit that is forgotten, and not yet overwritten or searched for; one stands for all."""
    return f"run `precog memory forget --id {ids[0]} --proof --user USER`: it goes on for all of them"


def miscounts(store: MemoryStore) -> tuple[str, ...]:
    """Counters of sub-clusters that are wrong."""
    return tuple(f"{line}; {STATES_ANEW}" for line in store.miscounted_groups())


def _without_keys(store: MemoryStore, damaged: Sequence[int]) -> tuple[int, ...]:
    keyed = {entry.deposit_id for entry in store.iter_keys(only_sound=True)}
    return tuple(sorted(set(store.ids_that_hold()) - keyed - set(damaged)))


def damage_of_segments(lines: Iterable[str]) -> Damage:
    """Of a memory that was opened although segment files are damaged."""
    told = [f"{line}: states that were in it are read again from their texts; {STATES_ANEW}" for line in lines]
    return Damage(others=tuple(told))


def _joined(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({*one, *other}))


def _named(ids: Sequence[int]) -> str:
    more = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
    return f"deposit{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids[:_MOST_NAMED]))}{more}"
