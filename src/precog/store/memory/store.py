"""A user's memory on flash: opened by any number of readers and one writer, changed in commit units."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from precog.store.folder_store import FolderStore
from precog.store.layout import RecordLayout
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

    def start_replacement(
        self, *, settings: Mapping[str, object], layout: RecordLayout, fingerprint: bytes, key_dim: int
    ) -> "MemoryStore":
        """Opens the one that is to take this one's place, or goes on with an interrupted one of the same settings.

        It is filled with ``copy_deposit`` and seen by nobody until ``publish_replacement``. Ids that this memory has
        ever used are not used again in it.
        """
        replacement = super().start_replacement(
            settings=settings, layout=layout, fingerprint=fingerprint, key_dim=key_dim
        )
        replacement._catalogue.use_ids_after(self._catalogue.last_id())
        return replacement
