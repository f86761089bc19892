"""A memory for another model or encoder: its texts are read again into a new folder that takes the old one's place.

Nobody sees the new one before it is whole; a run that was interrupted goes on where it stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from precog.encoders import load_encoder
from precog.memory.consolidate import folded, last_state
from precog.memory.deposit import keep_states, states_along, units
from precog.memory.domains import OTHERS
from precog.memory.made_with import settings_of, stored
from precog.memory.opened import OpenMemory, check_remembers
from precog.memory.prototypes import mean_key
from precog.memory.recall import refresh_index
from precog.records import ModelChoice
from precog.store.memory import Deposit, MemoryStore, Semantic


@dataclass(frozen=True)
class Reindexed:
    """What was read again.

    Attributes:
        num_deposits: of the memory.
        num_states: that were made; what had expired stays so.
        num_semantic: semantic states that were folded.
        bytes_on_disk: of the memory now.
    """

    num_deposits: int
    num_states: int
    num_semantic: int
    bytes_on_disk: int

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "deposits": self.num_deposits,
            "states": self.num_states,
            "semantic_states": self.num_semantic,
            "bytes": self.bytes_on_disk,
        }


def reindex(
    folder: Path,
    model: ModelChoice,
    *,
    encoder: str | None = None,
    codec: str | None = None,
    layers: str | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Reindexed:
    """Make states, keys and routes anew from the stored texts; ids, history and times stay.

    Prototypes that were fitted stay with their encoder; with another one routing starts from the seeds again.

    Raises:
        CorpusError: there is no memory.
        BusyError: another process is writing to it.
        StorageError: the disk is full or refuses; the old memory stays as it is.
    """
    with MemoryStore.open(folder, write=True, wait_sec=30.0, allow_damaged=True) as store:
        old = settings_of(store)
        backbone = model.open(old.model, "once")
        check_remembers(backbone)
        named = encoder or (old.encoder or None)
        loaded = load_encoder(named)
        settings = replace(
            old,
            model=str(model.folder()) if model.name is not None else old.model,
            encoder=named or "",
            encoder_fingerprint=loaded.fingerprint,
            encoding_dtype=backbone.encoding_dtype,
            codec=codec or old.codec,
            layers=layers or old.layers,
        )
        fresh = store.start_replacement(
            settings=settings.to_json(),
            layout=settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size),
            fingerprint=bytes.fromhex(backbone.fingerprint),
            key_dim=loaded.dim,
        )
        try:
            is_same_encoder = loaded.fingerprint == old.encoder_fingerprint
            kept = store.prototypes() if is_same_encoder else None
            memory = OpenMemory(fresh, settings, backbone, loaded, prototypes=kept)
            total = store.size().num_deposits
            done = fresh.size().num_deposits  # of an interrupted run: its units were committed in order of ids
            for unit in units(islice(store.deposits(), done, None)):
                _copy(memory, store, unit, has_same_keys=is_same_encoder)
                done += len(unit)
                on_progress(done, total)
            _take_groups(memory, store, has_same_keys=is_same_encoder)
            refresh_index(fresh, settings.encoder_fingerprint)
            size = fresh.size()
        except BaseException:
            fresh.close()
            raise
        store.publish_replacement(fresh)
    return Reindexed(size.num_deposits, size.num_states, size.num_semantic, size.disk_bytes)


def _copy(memory: OpenMemory, store: MemoryStore, unit: list[Deposit], *, has_same_keys: bool) -> None:
    ids = [deposit.id for deposit in unit]
    if has_same_keys:
        keys = {entry.deposit_id: entry.keys for entry in store.iter_keys(ids)}
    else:
        made = memory.encoder.encode_passages([deposit.info.key_text for deposit in unit])
        keys = dict(zip(ids, made, strict=True))
    settings = memory.settings
    with memory.store.batch() as batch:
        for deposit in unit:
            vectors, info = keys[deposit.id], deposit.info
            tokens = memory.backbone.tokenizer.encode(info.header + info.text)
            info = replace(info, num_tokens=len(tokens))
            if not has_same_keys:
                [routed] = settings.route(mean_key(vectors)[None], memory.prototypes)
                info = replace(info, domain=routed.domain, subcluster=routed.subcluster, probability=routed.probability)
            batch.copy_deposit(replace(deposit, info=info), vectors)
            # another tokenizer may need more tokens than a record has room for: such a state is read when it is needed
            if deposit.num_states and len(tokens) <= settings.chunk_tokens:
                dial = settings.dial_in(info.group, memory.prototypes)
                keep_states(memory, batch, deposit.id, tokens, states_along(memory, dial, tokens))


def _take_groups(memory: OpenMemory, store: MemoryStore, *, has_same_keys: bool) -> None:
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
