"""A user's memory on flash: opened by any number of readers and one writer, changed in commit units."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from precog.errors import BusyError, CorpusError
from precog.store.folder_store import DEFAULT_SEGMENT_BYTES, FolderStore
from precog.store.layout import RecordLayout
from precog.store.memory.batch import MemoryBatch
from precog.store.memory.catalogue import MemoryCatalogue
from precog.store.memory.reader import MemoryReader


class MemoryStore(FolderStore, MemoryReader):
    """The folder of a memory, open to read or to write."""

    DATABASE = MemoryCatalogue
    BEGINS_ANEW_AFTER_CHANGES = True  # what has been copied is not looked at again
    _catalogue: MemoryCatalogue

    @classmethod
    def open_or_create(
        cls,
        path: Path,
        *,
        settings: Mapping[str, object],
        layout: RecordLayout,
        fingerprint: bytes,
        key_dim: int,
        max_segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        wait_sec: float = 5.0,
    ) -> "MemoryStore":
        """Opens a memory to write, and makes it first where there is none; of two who do so at once, one waits.

        What it was made with may differ from what is given here: compare before writing.

        Raises:
            CorpusError: the folder holds something else.
            BusyError: another process is still writing after ``wait_sec``.
            StorageError: the disk refuses.
        """
        home = cls.FOLDER(path)
        if not home.exists:
            try:
                return cls.create(
                    path,
                    settings=settings,
                    layout=layout,
                    fingerprint=fingerprint,
                    key_dim=key_dim,
                    max_segment_bytes=max_segment_bytes,
                    wait_sec=wait_sec,
                )
            except BusyError:
                raise
            except CorpusError:
                if not home.exists:  # nobody else has made it since
                    raise
        return cls.open(path, write=True, wait_sec=wait_sec)

    def batch(self) -> AbstractContextManager[MemoryBatch]:
        """One commit unit; acknowledged when the ``with`` block has been left without an exception.

        Raises:
            StorageError: the disk is full or refuses; the unit is undone and the store stays usable.
        """
        return self._committing(MemoryBatch)

    def settle_unfinished(self, deposit_ids: Iterable[int]) -> None:
        """Records that nothing is left to be done about deposits that were noted by ``note_unfinished``.

        Raises:
            StorageError: the disk refuses; they stay noted.
        """
        self._writable()
        with self._catalogue.transaction():
            self._catalogue.settle_unfinished(deposit_ids)

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
