"""Sub-clusters fitted to a memory, and what follows for its deposits: new routes, semantic states folded anew.

How they were fitted is kept beside them, so that forgetting a deposit which the fit has read fits again on what is left
of the same deposits: the memory is then equal to one that never held it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from precog.errors import InputError, UsageError
from precog.memory.chunking import MemoryChunk
from precog.memory.consolidate import refold
from precog.memory.deposit import uid_of
from precog.memory.domains import OTHERS, SubCluster, read_seeds
from precog.memory.fit import FitSettings, fit
from precog.memory.keyed import Keyed
from precog.memory.opened import OpenMemory, stored
from precog.memory.prototypes import Prototypes, from_seeds, mean_key
from precog.memory.recall import refresh_index
from precog.memory.routing import route_all
from precog.store.memory import Deposit, Dropped, Emergent, Group, MemoryBatch, MemoryStore

FIT = "fit"
"""Name of the grouping that holds the settings of the fit; those that emerge are called DOMAIN ▸ NAME."""


@dataclass(frozen=True)
class Refitted:
    """What fitting has changed.

    Attributes:
        subclusters: that the memory is routed by now.
        sizes: deposits in each group, `OTHERS` included.
        num_fitted: sub-clusters that were fitted; the rest are made of seeds.
        num_moved: deposits that are in another group than before.
        rebuilt: sub-clusters whose semantic state was folded anew.
    """

    subclusters: tuple[SubCluster, ...]
    sizes: dict[Group, int]
    num_fitted: int
    num_moved: int
    rebuilt: tuple[Group, ...]

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "subclusters": [
                {"domain": s.domain, "name": s.name, "kind": s.kind, "deposits": self.sizes.get((s.domain, s.name), 0)}
                for s in self.subclusters
            ],
            "others": {domain: count for (domain, name), count in self.sizes.items() if name == OTHERS},
            "fitted": self.num_fitted,
            "moved": self.num_moved,
            "rebuilt": [" ▸ ".join(group) for group in self.rebuilt],
        }


@dataclass(frozen=True)
class Rerouted:
    """What new prototypes, or the lack of some deposits, have changed.

    Attributes:
        prototypes: that the memory is routed by now; to be taken over once the unit is committed.
        groups: whose semantic states are to be folded anew.
        dropped: what is gone, for people.
    """

    prototypes: Prototypes
    groups: tuple[Group, ...]
    dropped: tuple[str, ...] = ()


def keyed_deposits(store: MemoryStore, deposits: Sequence[Deposit]) -> Keyed:
    """Deposits as clustering sees them, in their order."""
    keys = {entry.deposit_id: mean_key(entry.keys) for entry in store.iter_keys([entry.id for entry in deposits])}
    return Keyed(
        tuple(entry.id for entry in deposits),
        np.stack([keys[entry.id] for entry in deposits]) if deposits else np.zeros((0, store.key_dim), np.float32),
        tuple(entry.info.text for entry in deposits),
        tuple(None if entry.info.time is None else entry.info.time.date() for entry in deposits),
    )


def fit_memory(memory: OpenMemory, settings: FitSettings, transcript: Iterable[MemoryChunk] | None = None) -> Refitted:
    """Fit sub-clusters, route every deposit by them, and fold the semantic states anew; one commit unit.

    Groups that were promoted before are not kept.

    Args:
        memory: open to write.
        settings: how.
        transcript: fit to these instead of to the memory's own deposits; nothing of them is deposited.

    Raises:
        InputError: there is nothing to fit to.
        UsageError: scikit-learn is not installed.
        StorageError: the disk refuses; the memory stays as it was.
    """
    store, base = memory.store, from_seeds(read_seeds(), memory.encoder)
    if transcript is None:
        deposits = list(store.deposits())
        made, last_id = fit(keyed_deposits(store, deposits), base, settings), deposits[-1].id if deposits else 0
    else:
        made, last_id = _fitted_to_transcript(memory, transcript, base, settings), 0
    before = {entry.id: entry.info.group for entry in store.deposits()}
    with store.batch() as batch:
        for grouping in store.emergent():
            batch.delete_emergent(grouping.name)
        batch.put_prototypes(stored(made))
        batch.put_emergent(Emergent(FIT, "", (), details={"last_id": last_id, "settings": asdict(settings)}))
        rebuilt, _ = refold_groups(memory, batch, reroute(memory, batch, made))
    memory.prototypes = made
    refresh_index(store, memory.settings.encoder_fingerprint)
    moved = sum(before[entry.id] != entry.info.group for entry in store.deposits())
    sizes = {(size.domain, size.subcluster): size.num_deposits for size in store.subclusters()}
    fitted = sum(not entry.seeds for entry in made.subclusters)
    return Refitted(made.subclusters, sizes, fitted, moved, tuple(rebuilt))


def _fitted_to_transcript(
    memory: OpenMemory, transcript: Iterable[MemoryChunk], base: Prototypes, settings: FitSettings
) -> Prototypes:
    chunks = list(transcript)
    if not chunks:
        raise InputError("there is nothing to fit sub-clusters to", given="a transcript without turns")
    keys = [mean_key(windows) for windows in memory.encoder.encode_passages([chunk.key_text() for chunk in chunks])]
    said = [chunk.utterance for chunk in chunks]
    keyed = Keyed(
        tuple(range(len(chunks))),
        np.stack(keys),
        tuple(entry.text for entry in said),
        tuple(None if entry.time is None else entry.time.date() for entry in said),
    )
    made = fit(keyed, base, settings)
    # what the memory holds, too, can be forgotten, and then these prototypes have to go
    known = {row: memory.store.find_uid(uid_of(chunk)) for row, chunk in enumerate(chunks)}
    here = [sorted({number for row in rows if (number := known[row]) is not None}) for rows in made.members]
    return replace(made, members=tuple(map(tuple, here)))


def reroute(memory: OpenMemory, batch: MemoryBatch, prototypes: Prototypes) -> set[Group]:
    """Routes every deposit by these prototypes; returns the groups that lost or got one, without semantic states."""
    deposits = list(memory.store.deposits())
    routes = route_all(
        keyed_deposits(memory.store, deposits).keys,
        prototypes,
        temperature=memory.settings.temperature,
        threshold=memory.settings.threshold,
    )
    changed: set[Group] = set()
    for deposit, routed in zip(deposits, routes, strict=True):
        info = deposit.info
        if (*info.group, info.probability) != (routed.domain, routed.subcluster, routed.probability):
            moved = batch.move_deposits([deposit.id], routed.domain, routed.subcluster, routed.probability)
            changed |= set(moved.groups)
    return changed


def refold_groups(memory: OpenMemory, batch: MemoryBatch, groups: Iterable[Group]) -> tuple[list[Group], list[str]]:
    """Folds semantic states anew; returns the sub-clusters that have one now, and what is gone, for people."""
    rebuilt: list[Group] = []
    dropped: list[str] = []
    for group in sorted(set(groups)):
        if group[1] == OTHERS:
            continue
        left = memory.store.deposits(domain=group[0], subcluster=group[1])
        semantic = refold(memory.store, left, group, memory.settings.alpha, memory.backbone, memory.reader)
        if semantic is not None:
            batch.put_semantic(semantic)
            rebuilt.append(group)
        else:
            dropped.append(f"semantic state of {' ▸ '.join(group)}")
    return rebuilt, dropped


def after_forgetting(memory: OpenMemory, batch: MemoryBatch, ids: Sequence[int], gone: Dropped) -> Rerouted:
    """Makes prototypes anew where they have read what was forgotten, and routes what is left by them.

    A fit is repeated with its settings on what is left of its deposits. A group that was promoted goes when it has lost
    a member, because its bounds and its name came of all of them; others that were promoted stay.

    Args:
        memory: whose unit this is.
        batch: in which the deposits were deleted.
        ids: of them.
        gone: what went with them.
    """
    groupings = memory.store.emergent()
    kept = next((entry for entry in groupings if entry.name == FIT), None)
    fitted = None if kept is None else _settings_of(kept)
    has_read = kept is not None and (fitted is None or any(number <= fitted[1] for number in ids))
    if not (gone.prototypes or has_read):
        return Rerouted(memory.prototypes, gone.groups, tuple(f"grouping {name}" for name in gone.emergent))
    dropped = ["prototypes"]
    base = prototypes = from_seeds(read_seeds(), memory.encoder)
    if kept is not None:
        refitted = None if fitted is None else _fitted_again(memory, base, *fitted)
        if refitted is None:
            batch.delete_emergent(FIT)
            dropped.append("the fit of sub-clusters: seeds are used again")
        prototypes = refitted or base
    for grouping in groupings:
        if grouping.name == FIT:
            continue
        again = None if grouping.name in gone.emergent else _promoted_again(memory, prototypes, grouping)
        if again is None:
            batch.delete_emergent(grouping.name)
            dropped.append(f"grouping {grouping.name}")
        else:
            prototypes = again
    dropped += [f"grouping {name}" for name in gone.emergent if f"grouping {name}" not in dropped]
    batch.put_prototypes(stored(prototypes))
    return Rerouted(prototypes, tuple({*gone.groups, *reroute(memory, batch, prototypes)}), tuple(dropped))


def _settings_of(kept: Emergent) -> tuple[FitSettings, int] | None:
    """How the fit was made, and the last deposit it has read; None where that cannot be told any more."""
    try:
        settings = FitSettings(**cast(dict[str, object], kept.details["settings"]))  # type: ignore[arg-type]  # checked
        return settings, int(cast(int, kept.details["last_id"]))
    except (KeyError, TypeError, ValueError, InputError):
        return None


def _fitted_again(memory: OpenMemory, base: Prototypes, settings: FitSettings, last_id: int) -> Prototypes | None:
    """The same fit on what is left; None where nothing is, it was of a transcript, or scikit-learn is gone."""
    left = [deposit for deposit in memory.store.deposits() if deposit.id <= last_id]
    if not left:
        return None
    try:
        return fit(keyed_deposits(memory.store, left), base, settings)
    except UsageError:  # what is to be forgotten is forgotten all the same
        return None


def _promoted_again(memory: OpenMemory, prototypes: Prototypes, grouping: Emergent) -> Prototypes | None:
    name, kind = grouping.details.get("name"), grouping.details.get("kind")
    if not grouping.promoted or not isinstance(name, str) or kind not in ("A", "B"):
        return None
    members = list(memory.store.deposits(ids=list(grouping.members)))
    try:
        key = mean_key(keyed_deposits(memory.store, members).keys)
        return prototypes.extended(SubCluster(grouping.domain, name, kind), key, grouping.members)
    except InputError:  # its name is one of the new fit's
        return None
