"""What a memory holds, as lists and counts; no model is needed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from precog.errors import InputError
from precog.memory.damage import Damage, damage_of, lost_of
from precog.memory.made_with import prototypes_of, settings_of
from precog.memory.settings import MemorySettings
from precog.store.memory import Deposit, GroupSize, MemorySize, MemoryStore


@dataclass(frozen=True)
class Listed:
    """Some deposits of a memory.

    Attributes:
        deposits: by rising id.
        total: that fit, whether they are among these or not.
        has_older: whether deposits that fit come before these.
        damage: of the memory, left out.
    """

    deposits: tuple[Deposit, ...]
    total: int
    has_older: bool
    damage: Damage

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        rows = [row_of(deposit) for deposit in self.deposits]
        return {"deposits": rows, "total": self.total, **self.damage.to_json()}


def listed(
    store: MemoryStore, *, domain: str | None = None, speaker: str | None = None, limit: int, before: int | None = None
) -> Listed:
    """The newest deposits that fit, the newest last.

    Args:
        store: the memory.
        domain: only those of it.
        speaker: only what was said by.
        limit: most of them.
        before: only those of a smaller id, to go on where an earlier list began.

    Raises:
        InputError: the memory has no such domain.
    """
    # filtered by what the seals cover: a damaged index of speakers or domains would hide some
    sound = store.deposits(only_sound=True)
    found = [entry for entry in sound if domain in (None, entry.info.domain) and speaker in (None, entry.info.speaker)]
    damage = damage_of(store)
    if not found and not damage:
        _refuse_unknown(store, domain)
    older = [entry for entry in found if before is None or entry.id < before]
    return Listed(tuple(older[-limit:]), len(found), len(older) > limit, damage)


def _refuse_unknown(store: MemoryStore, domain: str | None) -> None:
    """Refuses a domain that the memory does not have."""
    domains = sorted({*prototypes_of(store).domains, *(group.domain for group in store.subclusters())})
    if domain is not None and domain not in domains:
        raise InputError("there is no such domain", given=domain or '""', expected=", ".join(domains))


def row_of(deposit: Deposit) -> dict[str, object]:
    """A deposit as JSON."""
    info = deposit.info
    return {
        "id": deposit.id,
        "text": info.text,
        "time": None if info.time is None else info.time.isoformat(),
        "speaker": info.speaker,
        "place": info.place,
        "domain": info.domain,
        "subcluster": info.subcluster,
        "probability": info.probability,
        "num_tokens": info.num_tokens,
        "num_states": deposit.num_states,
        "superseded_by": deposit.superseded_by,
    }


def whole_row(store: MemoryStore, deposit_id: int) -> dict[str, object] | None:
    """A deposit with its header and the positions of its states, as JSON; None when it is not there."""
    deposit = store.deposit(deposit_id)
    if deposit is None:
        return None
    return {**row_of(deposit), "header": deposit.info.header, "positions": store.states_of(deposit_id)}


def groups_of(store: MemoryStore, ids: Sequence[int]) -> list[list[str]]:
    """Domain and sub-cluster of each of these deposits, as JSON; nothing for one that is not there."""
    routed = {entry.id: entry.info.group for entry in store.deposits(ids=sorted(set(ids)), only_sound=True)}
    return [list(routed.get(number, ())) for number in ids]


@dataclass(frozen=True)
class Stats:
    """How much a memory holds, and where.

    Attributes:
        size: in counts and bytes.
        groups: its sub-clusters.
        settings: its own.
        damage: what is lost.
    """

    size: MemorySize
    groups: tuple[GroupSize, ...]
    settings: MemorySettings
    damage: Damage

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        subclusters = [asdict(group) for group in self.groups]
        settings = self.settings.to_json()
        return {**asdict(self.size), "subclusters": subclusters, "settings": settings, **self.damage.to_json()}


def stats_of(store: MemoryStore) -> Stats:
    """How much a memory holds.

    Raises:
        DamagedCorpusError: its counters are damaged.
    """
    store.check_counters()
    return Stats(store.size(), tuple(store.subclusters()), settings_of(store), lost_of(store))
