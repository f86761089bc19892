"""A memory for another model or encoder: its texts are read again into a new folder that takes the old one's place.

Nobody sees the new one before it is whole; a run that was interrupted goes on where it stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from precog.encoders import load_encoder
from precog.errors import DamagedCorpusError
from precog.memory.consolidate import folded, last_state
from precog.memory.damage import SOUND, Damage, without_damaged
from precog.memory.deposit import keep_states, states_along, units
from precog.memory.domains import OTHERS
from precog.memory.expiry import keep_budget
from precog.memory.made_with import prototypes_of, settings_of, stored
from precog.memory.opened import OpenMemory, check_remembers
from precog.memory.prototypes import mean_key
from precog.memory.recall import refresh_index
from precog.memory.state_cost import check_dials
from precog.records import ModelChoice
from precog.store.memory import Deposit, MemoryStore, Semantic, StoredPrototypes


@dataclass(frozen=True)
class Reindexed:
    """What was read again.

    Attributes:
        num_deposits: of the memory.
        num_states: that it has now; what had expired stays so.
        num_semantic: semantic states that were folded.
        bytes_on_disk: of the memory now.
        damage: what was damaged; damaged deposits were not taken over, and everything else was made anew.
    """

    num_deposits: int
    num_states: int
    num_semantic: int
    bytes_on_disk: int
    damage: Damage = SOUND

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "deposits": self.num_deposits,
            "states": self.num_states,
            "semantic_states": self.num_semantic,
            "bytes": self.bytes_on_disk,
            **self.damage.to_json(),
        }


def reindex(
    folder: Path,
    model: ModelChoice,
    *,
    encoder: str | None = None,
    wanted: Mapping[str, object] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Reindexed:
    """Make states, keys and routes anew from the stored texts; ids, history and times stay.

    Prototypes that were fitted stay with their encoder; with another one, or where they are damaged, routing starts
    from the seeds again. Keys that are damaged are made anew; damaged deposits are left out and named.

    Args:
        folder: of the memory.
        model: that was chosen.
        encoder: that was named; None for the memory's own.
        wanted: settings of `MemorySettings` that change: ``codec``, ``layers``, the dials, ``budget_bytes``.
        on_progress: called with the deposits done, and of how many.

    Raises:
        UsageError: a setting is out of range, or the states of one chunk do not fit into the budget.
        CorpusError: there is no memory.
        BusyError: another process is writing to it.
        StorageError: the disk is full or refuses; the old memory stays as it is.
    """
    with MemoryStore.open(folder, write=True, wait_sec=30.0, allow_damaged=True) as store:
        old = settings_of(store)
        template = model.template_for(old.template)
        backbone = model.open(old.model, "once", template, old.encoding_dtype)
        model.check_found(old.model, store.fingerprint.hex() == backbone.fingerprint, "memory")
        check_remembers(backbone)
        named = encoder or (old.encoder or None)
        loaded = load_encoder(named)
        settings = replace(
            old,
            model=str(model.folder()) if model.name is not None else old.model,
            encoder=named or "",
            encoder_fingerprint=loaded.fingerprint,
            encoding_dtype=backbone.encoding_dtype,
            template=template,
            **{key: value for key, value in (wanted or {}).items() if value is not None},  # type: ignore[arg-type]
        )
        layout = settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size)
        check_dials(settings, layout.record_bytes)
        fresh = store.start_replacement(
            settings=settings.to_json(),
            layout=layout,
            fingerprint=bytes.fromhex(backbone.fingerprint),
            key_dim=loaded.dim,
        )
        try:
            is_same_encoder = loaded.fingerprint == old.encoder_fingerprint
            damaged = store.damaged_ids()
            kept, lost = _kept_prototypes(store, damaged) if is_same_encoder else (None, ())
            memory = OpenMemory(fresh, settings, backbone, loaded, prototypes=kept)
            total = store.size().num_deposits - len(set(damaged).difference(store.orphaned_ids()))
            sound = without_damaged(store.deposits(only_sound=True), damaged)
            done = fresh.size().num_deposits  # of an interrupted run: its units were committed in order of ids
            for unit in units(islice(sound, done, None)):
                _copy(memory, store, unit, has_same_keys=is_same_encoder, keeps_routes=kept is not None)
                done += len(unit)
                on_progress(done, total)
            _take_groups(memory)
            refresh_index(fresh, settings.encoder_fingerprint)
            size = fresh.size()
        except BaseException:
            fresh.close()
            raise
        store.publish_replacement(fresh)
    damage = Damage(lost=tuple(damaged), others=lost)
    return Reindexed(size.num_deposits, size.num_states, size.num_semantic, size.disk_bytes, damage)


def _kept_prototypes(store: MemoryStore, damaged: Sequence[int]) -> tuple[StoredPrototypes | None, tuple[str, ...]]:
    """The prototypes without members that are damaged, or None and a line that says why."""
    try:
        kept = prototypes_of(store)
    except DamagedCorpusError:
        return None, ("the prototypes were damaged: those of the seeds are used again; precog memory fit makes others",)
    gone = set(damaged)
    members = tuple(tuple(member for member in ids if member not in gone) for ids in kept.members)
    return stored(replace(kept, members=members)), ()


def _copy(
    memory: OpenMemory, store: MemoryStore, unit: list[Deposit], *, has_same_keys: bool, keeps_routes: bool
) -> None:
    ids = [deposit.id for deposit in unit]
    found = store.iter_keys(ids, only_sound=True) if has_same_keys else ()
    keys = {entry.deposit_id: entry.keys for entry in found}
    unkeyed = [deposit for deposit in unit if deposit.id not in keys]
    if unkeyed:
        made = memory.encoder.encode_passages([deposit.info.key_text for deposit in unkeyed])
        keys.update(zip((deposit.id for deposit in unkeyed), made, strict=True))
    settings = memory.settings
    with memory.store.batch() as batch:
        for deposit in unit:
            vectors, info = keys[deposit.id], deposit.info
            tokens = memory.backbone.tokenizer.encode(info.header + info.text)
            info = replace(info, num_tokens=len(tokens))
            if not keeps_routes:
                [routed] = settings.route(mean_key(vectors)[None], memory.prototypes)
                info = replace(info, domain=routed.domain, subcluster=routed.subcluster, probability=routed.probability)
            batch.copy_deposit(replace(deposit, info=info), vectors)
            # another tokenizer may need more tokens than a record has room for: such a state is read when it is needed
            if deposit.num_states and len(tokens) <= settings.chunk_tokens:
                dial = settings.dial_in(info.group, memory.prototypes)
                keep_states(memory, batch, deposit.id, tokens, states_along(memory, dial, tokens))


def _take_groups(memory: OpenMemory) -> None:
    """Semantic states from all deposits in their order, and prototypes that have read some of them."""
    semantic: dict[tuple[str, str], Semantic] = {}
    with memory.store.batch() as batch:
        for deposit in memory.store.deposits():
            group = deposit.info.group
            if group[1] != OTHERS:
                state = last_state(memory.store, deposit, memory.backbone, memory.reader)
                spec, alpha = memory.backbone.spec, memory.settings.alpha
                semantic[group] = folded(semantic.get(group), deposit.id, group, state, alpha, spec)
        for entry in semantic.values():
            batch.put_semantic(entry)
        if memory.store.prototypes() is None:
            batch.put_prototypes(stored(memory.prototypes))
        keep_budget(memory.store, batch, memory.settings.budget_bytes, frozenset())
