"""An archive ▸ deposits of a memory, with a model of its own."""

from collections.abc import Sequence

from precog.memory.archive import Entry
from precog.memory.deposit import Remembered, Telling, deposit_all
from precog.memory.opened import OpenMemory


def import_archive(memory: OpenMemory, entries: Sequence[Entry]) -> Remembered:
    """Deposit what an archive holds, in its order and with its dates; what is known already is a duplicate.

    Raises:
        StorageError: the disk is full or refuses; what was acknowledged stays, and importing again goes on.
    """
    done = deposit_all(memory, (Telling(entry.chunk, entry.importance, entry.created_at) for entry in entries))
    here = {entry.id: number for entry, number in zip(entries, done.ids, strict=True)}
    with memory.store.batch() as batch:
        for entry in entries:
            if entry.superseded_by is not None:
                batch.supersede(here[entry.id], here[entry.superseded_by], at=entry.superseded_at or 0.0)
    return done
