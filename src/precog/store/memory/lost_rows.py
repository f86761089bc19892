"""What names a deposit whose row is gone, so that it is known to be lost, and can be forgotten whole."""

import json
from collections.abc import Iterable, Mapping, Sequence

from precog.errors import DamagedCorpusError
from precog.store.database import Database
from precog.store.memory.rows import Group
from precog.store.memory.tables import STATES_ANEW
from precog.store.unit import FORGETTING

_NAMING = (
    ("states", "deposit_id"),
    ("keys", "deposit_id"),
    ("semantic", "last_deposit_id"),
    ("deposits", "superseded_by"),
)
_Marks = dict[int, list[str]]


class LostRows(Database):
    """Statements about rows whose deposit is not there, and about deposits that are on their way out."""

    def orphaned_ids(self) -> list[int]:
        """Ids that states, keys, semantic states or what was superseded name, and no deposit has; rising.

        What is no id, or one that was never given, is damage to the row that says so, and told by its seal.
        """
        parts = (
            f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL AND {name} NOT IN (SELECT id FROM deposits)"
            for table, name in _NAMING
        )
        found = [row[0] for row in self._all(" UNION ".join(parts))]
        last = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'deposits'")
        most = last[0] if last is not None and isinstance(last[0], int) else None
        return sorted(n for n in found if isinstance(n, int) and n > 0 and (most is None or n <= most))

    def delete_parts_of(self, deposit_ids: Iterable[int]) -> None:
        """Removes keys and states of deposits whose rows are gone; those of the others go with their rows."""
        for deposit_id in deposit_ids:
            for table in ("states", "keys"):
                self._run(f"DELETE FROM {table} WHERE deposit_id = ?", (deposit_id,))

    def orphaned_semantic(self) -> set[Group]:
        """Sub-clusters that have a semantic state, and no deposit, or not the one that was folded into it last."""
        sql = """SELECT domain, subcluster FROM semantic s WHERE NOT EXISTS (SELECT 1 FROM deposits d
            WHERE d.id = s.last_deposit_id AND d.domain = s.domain AND d.subcluster = s.subcluster)"""
        return {(str(row[0]), str(row[1])) for row in self._all(sql)}

    def miscounted_semantic(self) -> list[tuple[Group, int, int]]:
        """Sub-clusters whose semantic state was made of so many deposits, where so many are; no blob is read."""
        counted = (
            "SELECT domain, subcluster, count(*) AS found FROM deposits INDEXED BY deposits_by_group GROUP BY 1, 2"
        )
        sql = f"""SELECT s.domain, s.subcluster, s.num_deposits, coalesce(c.found, 0) FROM semantic s LEFT JOIN
            ({counted}) c ON c.domain = s.domain AND c.subcluster = s.subcluster
            WHERE s.num_deposits <> coalesce(c.found, 0) ORDER BY 1, 2"""
        rows = [row for row in self._all(sql) if isinstance(row[2], int)]  # a damaged row is told by its seal
        return [((str(row[0]), str(row[1])), self._int(row[2]), self._int(row[3])) for row in rows]

    def marks_of(self, deposit_ids: Sequence[int]) -> _Marks:
        """Of each deposit, in hexadecimal, what its row and records can be told by: its uid, and hashes of states."""
        found: _Marks = {}
        for deposit_id in deposit_ids:
            sql = "SELECT uid FROM deposits WHERE id = ? UNION ALL SELECT content_hash FROM states WHERE deposit_id = ?"
            marks = {row[0].hex() for row in self._all(sql, (deposit_id,) * 2) if isinstance(row[0], bytes)}
            found[deposit_id] = sorted(marks)
        return found

    def unfinished(self) -> _Marks:
        """Deposits that are forgotten, and of which it is not settled yet that nothing is left, with their marks."""
        said = self.get_meta(FORGETTING)
        try:
            found = {int(number): [bytes.fromhex(mark).hex() for mark in marks] for number, marks in _object(said)}
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            message = "the catalogue is damaged: what is being forgotten cannot be read"
            raise DamagedCorpusError(message, hint=STATES_ANEW) from error
        return found

    def note_unfinished(self, marks: Mapping[int, Sequence[str]]) -> None:
        """Writes down whose traces are to be removed, beside those that are noted already."""
        known = self.unfinished()
        for deposit_id, more in marks.items():
            known[deposit_id] = sorted({*known.get(deposit_id, ()), *more})
        if known:
            self.set_meta(FORGETTING, json.dumps({str(number): known[number] for number in sorted(known)}))

    def settle_unfinished(self, deposit_ids: Iterable[int]) -> None:
        """Records that nothing is left to be done about these."""
        left = self.unfinished()
        for deposit_id in deposit_ids:
            left.pop(deposit_id, None)
        if left:
            self.set_meta(FORGETTING, json.dumps({str(number): left[number] for number in sorted(left)}))
        else:
            self.delete_meta(FORGETTING)


def _object(said: str | None) -> Iterable[tuple[str, list[str]]]:
    found: dict[str, list[str]] = json.loads(said or "{}")
    return found.items()
