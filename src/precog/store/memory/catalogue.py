"""The catalogue of a memory, in one SQLite file."""

import itertools
from collections.abc import Iterator

from precog.errors import DamagedCorpusError
from precog.store.memory.deposit_rows import DepositRows, deposit_or_error
from precog.store.memory.derived_rows import DerivedRows
from precog.store.memory.lost_rows import LostRows
from precog.store.memory.row_builder import keys_of
from precog.store.memory.state_rows import StateRows
from precog.store.memory.tables import FORGET, MEMORY


class MemoryCatalogue(DepositRows, StateRows, DerivedRows, LostRows):
    """One connection to the catalogue of a memory."""

    KIND = MEMORY
    SEALS_EVERY_TEXT = True

    def counts(self) -> dict[str, int]:
        """Deposits, sub-clusters, states, tokens, and bytes of semantic states, keys and text."""
        sql = """SELECT (SELECT count(*) FROM deposits),
            (SELECT count(*) FROM deposits WHERE superseded_by IS NOT NULL), (SELECT count(*) FROM groups),
            (SELECT count(*) FROM states), (SELECT count(*) FROM semantic),
            (SELECT coalesce(sum(num_tokens), 0) FROM groups),
            (SELECT coalesce(sum(length(recurrent) + length(decay_time)), 0) FROM semantic),
            (SELECT coalesce(sum(length(vectors)), 0) FROM keys),
            (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM deposits)"""
        names = ("num_deposits", "num_superseded", "num_subclusters", "num_states", "num_semantic", "num_tokens")
        sizes = ("semantic_bytes", "key_bytes", "text_bytes")
        return dict(zip((*names, *sizes), map(self._int, self._one(sql) or ()), strict=True))

    def complaints_of_rows(self, dim: int) -> Iterator[str]:
        """Every row that is not what was written, and every counter that is wrong, a line each."""
        for deposit in map(deposit_or_error, self.deposit_rows()):
            if isinstance(deposit, DamagedCorpusError):
                yield str(deposit)
        for row in self.key_rows(None):
            try:
                keys_of(row, dim)
            except DamagedCorpusError as error:
                yield str(error)
        yield from self.damaged_states()
        for found in itertools.chain(self.checked_semantic(), self.checked_emergent()):
            if isinstance(found, DamagedCorpusError):
                yield str(found)
        try:
            self.prototypes()
        except DamagedCorpusError as error:
            yield str(error)
        yield from self.miscounted()
        for deposit_id in self.orphaned_ids():
            yield f"the catalogue is damaged: deposit {deposit_id} is gone, and something of it is left; {FORGET}"
