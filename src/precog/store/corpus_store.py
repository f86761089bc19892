"""A corpus on flash: documents, chunks, keys and states, changed in commit units."""

from contextlib import AbstractContextManager

from precog.store.batch import Batch
from precog.store.catalogue import Catalogue
from precog.store.corpus_reader import CorpusReader
from precog.store.folder_store import FolderStore


class CorpusStore(FolderStore, CorpusReader):
    """A corpus folder, open to read or to write."""

    DATABASE = Catalogue
    _catalogue: Catalogue

    def batch(self) -> AbstractContextManager[Batch]:
        """One commit unit; acknowledged when the ``with`` block has been left without an exception.

        Raises:
            StorageError: the disk is full or refuses; the unit is undone and the store stays usable.
        """
        return self._committing(Batch)
