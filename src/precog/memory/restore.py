"""An archive ▸ deposits of a memory, with a model of its own."""

from collections.abc import Sequence

from precog.errors import DamagedCorpusError, InputError
from precog.memory.archive import Entry, in_a_circle, supersedes
from precog.memory.deposit import Remembered, Telling, deposit_all, uid_of
from precog.memory.opened import OpenMemory
from precog.store.memory import MemoryStore
from precog.text.tokenizer import Tokenizer


def check_archive(entries: Sequence[Entry], tokenizer: Tokenizer, max_tokens: int, store: MemoryStore | None) -> None:
    """Refuse what a memory cannot hold, before anything of it is stored or the memory is made.

    Args:
        entries: of an archive.
        tokenizer: of the model that is to read them.
        max_tokens: that a record of the memory has room for.
        store: the memory; None where it is to be made.

    Raises:
        InputError: an entry is too long, or is to be superseded by what it has superseded; its line is named.
    """
    for entry in entries:
        # every token stands for at least one byte, so a short text needs no count of its own
        text = entry.chunk.read_text()
        if len(text.encode()) >= max_tokens and (count := len(tokenizer.encode(text))) > max_tokens:
            given = f"{entry.place}, {count} tokens of header and text"
            hint = "it was exported with another model, or written by hand: cut the text into parts"
            raise InputError("a deposit of the archive is too long", given=given, expected=max_tokens, hint=hint)
    name_of = {entry.id: uid_of(entry.chunk) for entry in entries}
    history = [(entry, entry.superseded_by) for entry in entries if entry.superseded_by is not None]
    newer = _newer(store) if store is not None and history else {}
    for entry, by in history:  # what is history here stays so; what says the reverse is refused
        if newer.get(name_of[by]) == name_of[entry.id]:
            raise in_a_circle(entry, "the archive contradicts itself, or what is remembered")
    known = set(newer)
    for entry, by in history:
        if name_of[entry.id] not in known and not supersedes(newer, name_of[entry.id], name_of[by]):
            raise in_a_circle(entry, "the archive contradicts itself, or what is remembered")


def _newer(store: MemoryStore) -> dict[bytes, bytes]:
    """What has superseded what, by the names of both."""
    found = [deposit for deposit in store.checked_deposits() if not isinstance(deposit, DamagedCorpusError)]
    uids = {deposit.id: deposit.info.uid for deposit in found}
    return {deposit.info.uid: uids[by] for deposit in found if (by := deposit.superseded_by) in uids}


def import_archive(memory: OpenMemory, entries: Sequence[Entry]) -> Remembered:
    """Deposit what an archive holds, in its order and with its dates; what is known already is a duplicate.

    What is history here already stays superseded by what superseded it here, whatever the archive says: else forgetting
    the newest of a chain would bring back more than the one before it.

    Raises:
        InputError: see `check_archive`; nothing is stored.
        StorageError: the disk is full or refuses; what was acknowledged stays, and importing again goes on.
    """
    check_archive(entries, memory.backbone.tokenizer, memory.settings.chunk_tokens, memory.store)
    done = deposit_all(memory, (Telling(entry.chunk, entry.importance, entry.created_at) for entry in entries))
    here = {entry.id: number for entry, number in zip(entries, done.ids, strict=True)}
    with memory.store.batch() as batch:
        linked = _superseded(memory.store)
        for entry in entries:
            if entry.superseded_by is not None and here[entry.id] not in linked:
                linked.add(here[entry.id])
                batch.supersede(here[entry.id], here[entry.superseded_by], at=entry.superseded_at or 0.0)
    return done


def _superseded(store: MemoryStore) -> set[int]:
    return {deposit.id for deposit in store.deposits(superseded=True, only_sound=True)}
