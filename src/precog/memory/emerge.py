"""Groups that emerge in a memory: found in what no sub-cluster holds, and promoted to sub-clusters of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from precog.errors import InputError
from precog.memory.damage import SOUND, Damage, damage_of
from precog.memory.domains import OTHERS
from precog.memory.emergent import LEAST_MEMBERS, Candidate, find_emergent
from precog.memory.emergent import promote as extended_by
from precog.memory.history import Promotion
from precog.memory.keyed import Keyed
from precog.memory.made_with import stored
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import Prototypes
from precog.memory.recall import refreshed_or_why
from precog.memory.reroute import keyed_deposits, refold_groups, reroute
from precog.store.memory import Group, MemoryStore


@dataclass(frozen=True)
class Promoted:
    """What promoting a group has changed.

    Attributes:
        candidate: that became a sub-cluster.
        num_deposits: that are in it now: others may be nearer to it than its members.
        rebuilt: sub-clusters whose semantic state was folded anew.
        damage: what was found damaged, the index that cannot be written included.
    """

    candidate: Candidate
    num_deposits: int
    rebuilt: tuple[Group, ...]
    damage: Damage = SOUND

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "promoted": self.candidate.to_json(),
            "deposits": self.num_deposits,
            "rebuilt": [" ▸ ".join(group) for group in self.rebuilt],
            **self.damage.to_json(),
        }


def candidates(
    store: MemoryStore, prototypes: Prototypes, domain: str | None = None, *, least_members: int = LEAST_MEMBERS
) -> list[Candidate]:
    """The groups that emerge, domain by domain, the largest of each first; finding them changes nothing.

    Args:
        store: the memory.
        prototypes: that it routes by.
        domain: only of this one.
        least_members: of a group.

    Raises:
        InputError: there is no such domain.
        UsageError: scikit-learn is not installed.
    """
    deposits = list(store.deposits(domain=domain, only_sound=True))
    keyed, group_of = keyed_deposits(store, deposits), {deposit.id: deposit.info.group for deposit in deposits}
    groups = [group_of[number] for number in keyed.ids]
    domains = prototypes.domains if domain is None else (domain,)
    return [
        candidate
        for name in domains
        for candidate in emerging(keyed, groups, prototypes, name, least_members=least_members)
    ]


def emerging(
    keyed: Keyed, groups: Sequence[Group], prototypes: Prototypes, domain: str, *, least_members: int
) -> list[Candidate]:
    """The groups that emerge in one domain, of deposits and the groups they are in.

    Raises:
        InputError: there is no such domain.
        UsageError: scikit-learn is not installed.
    """
    taken = [prototypes.subclusters[row].name for row in prototypes.rows_of(domain)]
    others = [row for row, group in enumerate(groups) if group == (domain, OTHERS)]
    rest = [keyed.texts[row] for row, group in enumerate(groups) if group[0] == domain and group[1] != OTHERS]
    return find_emergent(keyed.take(others), domain, least_members=least_members, rest=rest, taken=taken)


def promoted(prototypes: Prototypes, candidate: Candidate, *, least_members: int, last_id: int) -> Prototypes:
    """The prototypes with a group that emerged as one more sub-cluster, and with how it came about.

    Raises:
        InputError: the name is taken.
    """
    step = Promotion(candidate.domain, candidate.name, least_members, last_id)
    history = prototypes.history
    history = replace(history, promotions=(*history.promotions, step))
    return extended_by(prototypes, candidate).with_history(history)


def promote(
    memory: OpenMemory, name: str, domain: str | None = None, *, least_members: int = LEAST_MEMBERS
) -> Promoted:
    """Make a group that emerges a sub-cluster, and route every deposit anew; one commit unit.

    Args:
        memory: open to write.
        name: of the group, as `candidates` gives it.
        domain: of the group; needed where two have that name.
        least_members: of a group.

    Raises:
        InputError: no group of that name emerges, or several do.
        UsageError: scikit-learn is not installed.
        StorageError: the disk refuses; the memory stays as it was.
    """
    store = memory.store
    found = candidates(store, memory.prototypes, domain, least_members=least_members)
    meant = [entry for entry in found if entry.name == name]
    if len(meant) != 1:
        what = "several groups of that name emerge" if meant else "no group of that name emerges"
        told = ", ".join(f"{entry.domain} ▸ {entry.name}" for entry in meant or found) or "none emerges at all"
        raise InputError(what, given=name, expected=told, hint="name its domain: --domain D" if meant else None)
    [candidate] = meant
    newest = max(entry.id for entry in store.deposits(only_sound=True))
    made = promoted(memory.prototypes, candidate, least_members=least_members, last_id=newest)
    with store.batch() as batch:
        batch.put_prototypes(stored(made))
        rebuilt, _ = refold_groups(memory, batch, reroute(memory, batch, made), made)
    memory.prototypes = made
    unwritten = refreshed_or_why(store, memory.settings.encoder_fingerprint)
    damage = damage_of(store) + memory.damage + Damage(others=() if unwritten is None else (unwritten,))
    sizes = {(size.domain, size.subcluster): size.num_deposits for size in store.subclusters()}
    return Promoted(candidate, sizes.get((candidate.domain, candidate.name), 0), tuple(rebuilt), damage)
