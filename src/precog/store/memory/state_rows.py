"""Where the states of a memory lie: one row per position of the dial that was kept of a deposit."""

from collections.abc import Iterator, Sequence

from precog.store.database import PAGE_OF_ROWS, Database
from precog.store.memory.row_builder import seal_of_state
from precog.store.memory.tables import STATES_ANEW
from precog.store.record import Location
from precog.store.row_builder import Row, damaged


class StateRows(Database):
    """Statements about states."""

    def add_state(self, deposit_id: int, position: int, content_hash: bytes, location: Location) -> None:
        """Records where a new state lies."""
        seal = seal_of_state(deposit_id, position, content_hash)
        sql = "INSERT INTO states (deposit_id, position, content_hash, segment, slot, seal) VALUES (?, ?, ?, ?, ?, ?)"
        self._run(sql, (deposit_id, position, content_hash, location.segment, location.slot, seal))

    def positions(self, deposit_id: int) -> list[int]:
        """Positions of which a state is kept, rising."""
        sql = "SELECT position FROM states WHERE deposit_id = ? ORDER BY 1"
        return [self._int(row[0]) for row in self._all(sql, (deposit_id,))]

    def drop_states(self, deposit_id: int, keep: Sequence[int]) -> int:
        """Removes states of a deposit and returns how many; their bytes are left to be erased."""
        gone = [position for position in self.positions(deposit_id) if position not in set(keep)]
        for position in gone:
            self._run("DELETE FROM states WHERE deposit_id = ? AND position = ?", (deposit_id, position))
        return len(gone)

    def place_of(self, deposit_id: int, position: int | None) -> tuple[Location, bytes] | bool:
        """Where a state lies and its content hash; True when it has expired, False when its deposit is gone.

        One of a named position is found without the row of its deposit, too, which may have been lost.
        """
        sql = """SELECT s.position, s.segment, s.slot, s.content_hash, s.seal FROM deposits d
            LEFT JOIN states s ON s.deposit_id = d.id AND s.position = coalesce(?, d.num_tokens) WHERE d.id = ?"""
        row = self._one(sql, (position, deposit_id))
        if row is None:
            sql = "SELECT position, segment, slot, content_hash, seal FROM states WHERE deposit_id = ? AND position = ?"
            row = self._one(sql, (deposit_id, position))
        if row is None:
            return False
        return True if row[0] is None else self._checked(deposit_id, row)

    def num_states(self) -> int:
        """States that are kept."""
        return self._int((self._one("SELECT count(*) FROM states") or (0,))[0])

    def damaged_states(self) -> Iterator[str]:
        """Rows that are not what was written, a line each."""
        sql = f"""SELECT id, deposit_id, position, segment, slot, content_hash, seal FROM states
            WHERE id > ? ORDER BY id LIMIT {PAGE_OF_ROWS}"""
        for row in self._paged(sql, []):
            if not isinstance(row[1], int) or not self._is_sealed(row[1], row[2:]):
                yield str(_damage(row[1], row[2]))

    def _checked(self, deposit_id: int, row: Row) -> tuple[Location, bytes]:
        if not self._is_sealed(deposit_id, row):
            raise _damage(deposit_id, row[0])
        return self._place(row[1:3]), self._bytes(row[3])

    @staticmethod
    def _is_sealed(deposit_id: int, row: Row) -> bool:
        position, _, _, content_hash, seal = row
        if not isinstance(position, int) or not isinstance(content_hash, bytes):
            return False
        return seal_of_state(deposit_id, position, content_hash) == seal


def _damage(deposit_id: object, position: object) -> Exception:
    what = f"the place of state {position} of deposit {deposit_id}"
    return damaged(what, "its checksum does not match", STATES_ANEW)
