"""Sub-clusters fitted to a memory, and what follows for its deposits: new routes, semantic states folded anew."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from precog.errors import InputError
from precog.memory.chunking import MemoryChunk
from precog.memory.damage import SOUND, Damage, damage_of
from precog.memory.deposit import uid_of
from precog.memory.domains import OTHERS, SubCluster, read_seeds
from precog.memory.fit import fit
from precog.memory.history import Fit, FitSettings, History, short_uid
from precog.memory.keyed import Keyed
from precog.memory.made_with import stored
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import Prototypes, from_seeds, mean_key
from precog.memory.recall import refreshed_or_why
from precog.memory.reroute import keyed_deposits, refold_groups, reroute
from precog.memory.routing import FITTED_TEMPERATURE
from precog.store.memory import Group


@dataclass(frozen=True)
class Refitted:
    """What fitting has changed.

    Attributes:
        subclusters: that the memory is routed by now.
        sizes: deposits in each group, `OTHERS` included.
        num_fitted: sub-clusters that were fitted; the rest are made of seeds.
        num_moved: deposits that are in another group than before.
        rebuilt: sub-clusters whose semantic state was folded anew.
        damage: what was found damaged, the index that cannot be written included.
    """

    subclusters: tuple[SubCluster, ...]
    sizes: dict[Group, int]
    num_fitted: int
    num_moved: int
    rebuilt: tuple[Group, ...]
    damage: Damage = SOUND

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
            **self.damage.to_json(),
        }


def fit_memory(memory: OpenMemory, settings: FitSettings, transcript: Iterable[MemoryChunk] | None = None) -> Refitted:
    """Fit sub-clusters, route every deposit by them, and fold the semantic states anew; one commit unit.

    Groups that were promoted before are not kept.

    Args:
        memory: open to write.
        settings: how.
        transcript: fit to these instead of to the memory's own deposits; nothing of them is deposited.

    Raises:
        InputError: there is nothing to fit to, fewer texts than J, or too little for a single sub-cluster.
        UsageError: scikit-learn is not installed.
        StorageError: the disk refuses; the memory stays as it was.
    """
    store = memory.store
    if transcript is None:
        newest = max((entry.id for entry in store.deposits(only_sound=True)), default=0)
        made = fitted_to(memory, Fit(settings, FITTED_TEMPERATURE, newest))
    else:
        made = _fitted_to_transcript(memory, list(transcript), settings)
    return _used(memory, made)


def _used(memory: OpenMemory, made: Prototypes) -> Refitted:
    store = memory.store
    before = {entry.id: entry.info.group for entry in store.deposits(only_sound=True)}
    with store.batch() as batch:
        batch.put_prototypes(stored(made))
        rebuilt, _ = refold_groups(memory, batch, reroute(memory, batch, made), made)
    memory.prototypes = made
    unwritten = refreshed_or_why(store, memory.settings.encoder_fingerprint)
    moved = sum(before[entry.id] != entry.info.group for entry in store.deposits(only_sound=True))
    sizes = {(size.domain, size.subcluster): size.num_deposits for size in store.subclusters()}
    num_fitted = sum(not entry.seeds for entry in made.subclusters)
    damage = damage_of(store) + memory.damage + Damage(others=() if unwritten is None else (unwritten,))
    return Refitted(made.subclusters, sizes, num_fitted, moved, tuple(rebuilt), damage)


def use_seeds(memory: OpenMemory) -> Refitted:
    """Go back to the prototypes of the seeds, whatever is stored, and route every deposit by them; one commit unit.

    Args:
        memory: open to write, with ``keeps_prototypes=False``.

    Raises:
        StorageError: the disk refuses; the memory stays as it was.
    """
    return _used(memory, seeds_of(memory))


def fitted_to(memory: OpenMemory, wanted: Fit) -> Prototypes:
    """Prototypes fitted to what the memory holds of the deposits that a fit is of.

    Raises:
        InputError: there are none, or too few.
        UsageError: scikit-learn is not installed.
    """
    deposits = [entry for entry in memory.store.deposits(only_sound=True) if entry.id <= wanted.last_id]
    made = _fit(memory, keyed_deposits(memory.store, deposits), wanted.settings)
    return made.with_history(History(replace(wanted, last_id=deposits[-1].id)))


def seeds_of(memory: OpenMemory) -> Prototypes:
    """What a memory routes by before anything is fitted."""
    kept = memory.prototypes
    return kept if kept.history == History() else from_seeds(read_seeds(), memory.encoder)


def _fit(memory: OpenMemory, texts: Keyed, settings: FitSettings) -> Prototypes:
    wanted, least = settings.per_domain, settings.least_members
    if wanted is not None and 0 < len(texts.ids) < wanted:
        what = "there are fewer texts than sub-clusters are wanted of each domain"
        hint = "ask for fewer, or leave --per-domain out: the number is then chosen"
        expected = f"--per-domain 1 to {len(texts.ids)}"
        raise InputError(what, given=f"{len(texts.ids)} texts, J = {wanted}", expected=expected, hint=hint)
    made = fit(texts, seeds_of(memory), settings)
    if all(entry.seeds for entry in made.subclusters):
        is_dense = " that lie close together" if settings.method == "hdbscan" else ""
        raise InputError(
            "there is too little to fit a sub-cluster to",
            given=f"{len(texts.ids)} texts",
            expected=f"{least} of one domain{is_dense}",
            hint="remember more, then fit again; until then the seeds route",
        )
    return made


def _fitted_to_transcript(memory: OpenMemory, chunks: list[MemoryChunk], settings: FitSettings) -> Prototypes:
    if not chunks:
        given, hint = "a transcript without turns", "name one in which something is said"
        raise InputError("there is nothing to fit sub-clusters to", given=given, expected="turns", hint=hint)
    keys = [mean_key(windows) for windows in memory.encoder.encode_passages([chunk.key_text() for chunk in chunks])]
    said = [chunk.utterance for chunk in chunks]
    keyed = Keyed(
        tuple(range(len(chunks))),
        np.stack(keys),
        tuple(entry.text for entry in said),
        tuple(None if entry.time is None else entry.time.date() for entry in said),
    )
    made = _fit(memory, keyed, settings)
    uids = tuple(sorted({short_uid(uid_of(chunk)) for chunk in chunks}))
    return made.with_history(History(Fit(settings, FITTED_TEMPERATURE, 0, uids)))
