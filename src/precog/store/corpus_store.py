"""A corpus on flash: documents, chunks, keys and states, changed in commit units."""

from contextlib import AbstractContextManager

from precog.store.batch import Batch
from precog.store.catalogue import Catalogue
from precog.store.corpus_reader import STATE_BUDGET, CorpusReader
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

    def set_state_budget(self, budget_bytes: int | None) -> None:
        """Changes what the records of states may take together; `Batch.keep_budget` is what keeps it."""
        self._writable()
        with self._catalogue.transaction():
            if budget_bytes is None:
                self._catalogue.delete_meta(STATE_BUDGET)
            else:
                self._catalogue.set_meta(STATE_BUDGET, str(budget_bytes))
