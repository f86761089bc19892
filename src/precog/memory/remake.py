"""What has read a deposit, made again without it: a fit, and the groups that were promoted since.

What was done is done again, step by step, on what is left of the deposits that each step has read. So the memory is
then equal, bit for bit, to one that never held what was forgotten and to which the same was done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from precog.errors import InputError, UsageError
from precog.memory.emerge import emerging, promoted
from precog.memory.history import History, Promotion
from precog.memory.made_with import stored
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import Prototypes
from precog.memory.refit import fitted_to, seeds_of
from precog.memory.reroute import keyed_deposits, reroute
from precog.store.memory import Deposit, Group, MemoryBatch


@dataclass(frozen=True)
class Remade:
    """What the lack of some deposits has changed.

    Attributes:
        prototypes: that the memory is routed by now; to be taken over once the unit is committed.
        groups: whose semantic states are to be folded anew.
        dropped: what is gone or was made anew, for people.
        restored: deposits that hold again, because all that was newer is gone.
    """

    prototypes: Prototypes
    groups: tuple[Group, ...]
    dropped: tuple[str, ...] = ()
    restored: tuple[int, ...] = ()


def without(memory: OpenMemory, batch: MemoryBatch, gone: Sequence[Deposit], damaged: Sequence[int] = ()) -> Remade:
    """Deletes deposits, and makes the prototypes again where they have read one.

    A fit that is not possible any more, with too little left or without scikit-learn, gives way to the seeds, and so
    does a fit to a transcript that said the same; a promoted group goes when it does not emerge any more.

    Args:
        memory: whose unit this is.
        batch: the unit.
        gone: of the memory.
        damaged: go, too; nobody knows what they said.
    """
    dropped = batch.delete_deposits([*(deposit.id for deposit in gone), *damaged])
    history = memory.prototypes.history
    read = [*((deposit.id, deposit.info.uid) for deposit in gone), *((number, b"") for number in damaged)]
    if not history.has_read(read):
        return Remade(memory.prototypes, dropped.groups, restored=dropped.restored)
    lost = ["prototypes"]
    prototypes = _first_step(memory, read, lost)
    for step in history.promotions:
        again = _promoted_again(memory, prototypes, step)
        if again is None:
            lost.append(f"a promoted group of {step.domain}")  # its name was made of what was said
        prototypes = again or prototypes
    batch.put_prototypes(stored(prototypes))
    groups = tuple({*dropped.groups, *reroute(memory, batch, prototypes)})
    return Remade(prototypes, groups, tuple(lost), dropped.restored)


def _first_step(memory: OpenMemory, read: Sequence[tuple[int, bytes]], lost: list[str]) -> Prototypes:
    """The prototypes without what was promoted: fitted again if the fit has read what is gone."""
    prototypes, history = memory.prototypes, memory.prototypes.history
    fit = history.fit
    if fit is None or not any(fit.has_read(number, uid) for number, uid in read):
        names = {(step.domain, step.name) for step in history.promotions}
        rows = [row for row, entry in enumerate(prototypes.subclusters) if (entry.domain, entry.name) in names]
        return replace(prototypes.without(rows), history=History(fit))
    if fit.uids:
        lost.append("the fit to a transcript that said the same: seeds are used again")
        return seeds_of(memory)
    try:
        return fitted_to(memory, fit)
    except (InputError, UsageError):  # what is to be forgotten is forgotten all the same
        lost.append("the fit of sub-clusters: seeds are used again")
        return seeds_of(memory)


def _promoted_again(memory: OpenMemory, prototypes: Prototypes, step: Promotion) -> Prototypes | None:
    """With the group that emerges under the same name in what is left of the same deposits, if one does."""
    left = [deposit for deposit in memory.store.deposits(only_sound=True) if deposit.id <= step.last_id]
    keyed = keyed_deposits(memory.store, left)
    groups = [(routed.domain, routed.subcluster) for routed in memory.settings.route(keyed.keys, prototypes)]
    try:
        found = emerging(keyed, groups, prototypes, step.domain, least_members=step.least_members)
        candidate = next((entry for entry in found if entry.name == step.name), None)
        if candidate is None:
            return None
        return promoted(prototypes, candidate, least_members=step.least_members, last_id=left[-1].id)
    except (InputError, UsageError):  # its domain or its name is another's now, or scikit-learn is gone
        return None
