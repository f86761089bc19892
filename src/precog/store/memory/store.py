"""A user's memory on flash: opened by any number of readers and one writer, changed in commit units."""

from contextlib import AbstractContextManager

from precog.store.folder_store import FolderStore
from precog.store.memory.batch import MemoryBatch
from precog.store.memory.catalogue import MemoryCatalogue
from precog.store.memory.reader import MemoryReader


class MemoryStore(FolderStore, MemoryReader):
    """The folder of a memory, open to read or to write."""

    DATABASE = MemoryCatalogue
    _catalogue: MemoryCatalogue

    def batch(self) -> AbstractContextManager[MemoryBatch]:
        """One commit unit; acknowledged when the ``with`` block has been left without an exception.

        Raises:
            StorageError: the disk is full or refuses; the unit is undone and the store stays usable.
        """
        return self._committing(MemoryBatch)
