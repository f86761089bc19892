"""The deposits of a memory, their keys, and the sub-clusters they are counted in."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from precog.errors import CorpusError, DamagedCorpusError
from precog.store.database import PAGE_OF_ROWS, Database
from precog.store.memory.row_builder import deposit_of, keys_of, keys_seal, number_of, row_of
from precog.store.memory.rows import Deposit, DepositKeys, Group, GroupSize, KeptStates
from precog.store.row_builder import Row, text_of, to_sql

_NAMES = """id, uid, text, header, key_text, details, time_iso, time_utc, speaker, place, reference, domain, subcluster,
    probability, importance, num_tokens, num_accesses, accessed_at, superseded_by, superseded_at, created_at, seal"""
_DEPOSIT = f"""SELECT {_NAMES}, (SELECT count(*) FROM states WHERE states.deposit_id = deposits.id) AS num_states
    FROM deposits"""  # counted, because the counter has no seal
_KEYS = "SELECT d.id, k.num_windows, k.vectors, k.seal FROM deposits d LEFT JOIN keys k ON k.deposit_id = d.id"


class DepositRows(Database):
    """Statements about deposits."""

    def add_deposit(self, deposit: Deposit, num_windows: int, vectors: bytes) -> int:
        """Adds a deposit with its keys, both sealed; an id of 0 stands for the next one, which is returned."""
        if deposit.id == 0:
            deposit = Deposit(self.last_id() + 1, deposit.info, accessed_at=deposit.info.created_at)
        elif self.deposit(deposit.id) is not None:
            raise CorpusError("a deposit of that id is in the memory already", given=deposit.id)
        values = row_of(deposit)
        self._run(f"INSERT INTO deposits ({_NAMES}) VALUES ({_marks(values)})", values)
        seal = keys_seal(deposit.id, num_windows, vectors)
        self._run("INSERT INTO keys VALUES (?, ?, ?, ?)", (deposit.id, num_windows, vectors, seal))
        return deposit.id

    def last_id(self) -> int:
        """The highest id that any deposit has ever had; 0 before the first."""
        row = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'deposits'")
        return 0 if row is None else self._int(row[0])

    def use_ids_after(self, deposit_id: int) -> None:
        """Gives new deposits higher ids than this one, in a catalogue that holds none yet."""
        if self.last_id() == 0 and deposit_id:
            self._run("INSERT INTO sqlite_sequence VALUES ('deposits', ?)", (deposit_id,))

    def find_uid(self, uid: bytes) -> int | None:
        """The deposit of that name, if it is here."""
        row = self._one("SELECT id FROM deposits WHERE uid = ?", (uid,))
        return None if row is None else self._int(row[0])

    def deposit(self, deposit_id: int) -> Deposit | None:
        """The deposit of that id.

        Raises:
            DamagedCorpusError: it is not what was written.
        """
        row = self._one(f"{_DEPOSIT} WHERE id = ?", (deposit_id,))
        return None if row is None else deposit_of(row)

    def rewrite(self, deposit: Deposit) -> None:
        """Replaces the row of a deposit that was read, and so checked, before."""
        number, *values = row_of(deposit)
        columns = [name.strip() for name in _NAMES.split(",")][1:]
        changes = ", ".join(f"{column} = ?" for column in columns)
        self._run(f"UPDATE deposits SET {changes} WHERE id = ?", (*values, number))

    def clear_superseder(self, deposit_id: int) -> None:
        """Whatever the row of a deposit says, it names no newer one any more."""
        self._run("UPDATE deposits SET superseded_by = NULL, superseded_at = NULL WHERE id = ?", (deposit_id,))

    def superseded_by(self, deposit_ids: Sequence[int]) -> list[int]:
        """Ids of the deposits that these have superseded."""
        sql = "SELECT id FROM deposits WHERE superseded_by IS NOT NULL AND superseded_by IN"
        return [self._int(row[0]) for row in self._among(sql, deposit_ids)]

    def known(self, deposit_ids: Sequence[int]) -> set[int]:
        """Those of the ids that are deposits."""
        return {self._int(row[0]) for row in self._among("SELECT id FROM deposits WHERE id IN", deposit_ids)}

    def groups_of(self, deposit_ids: Sequence[int]) -> set[Group] | None:
        """The sub-clusters that these deposits are in; None when a row is damaged or gone, so that nobody can tell."""
        found: set[Group] = set()
        if len(self.known(deposit_ids)) < len(deposit_ids):
            return None
        for row in self.deposit_rows(ids=deposit_ids):
            deposit = deposit_or_error(row)
            if isinstance(deposit, DamagedCorpusError):
                return None
            found.add(deposit.info.group)
        return found

    def ids_that_hold(self) -> list[int]:
        """Ids of the deposits that nothing has superseded, rising, from an index alone."""
        rows = self._all(f"SELECT id FROM deposits INDEXED BY deposits_by_group WHERE {_superseded(False)}")
        return sorted(self._int(row[0]) for row in rows)

    def raw_parts(self, deposit_id: int) -> list[bytes]:
        """Text, header with text, key text and keys of a deposit as they stand there."""
        said = (
            "SELECT CAST(text AS BLOB), CAST(header || text AS BLOB), CAST(key_text AS BLOB) FROM deposits WHERE id = ?"
        )
        keys = "SELECT CAST(vectors AS BLOB) FROM keys WHERE deposit_id = ?"  # they may be left of a lost deposit
        found = [part for sql in (said, keys) for part in self._one(sql, (deposit_id,)) or ()]
        return [
            part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
            for part in found
            if part is not None
        ]

    def delete_deposits(self, deposit_ids: Sequence[int]) -> None:
        """Removes deposits with their keys and states."""
        for part in _parts(deposit_ids):
            self._run(f"DELETE FROM deposits WHERE id IN ({_marks(part)})", part)

    def deposit_rows(
        self,
        *,
        ids: Sequence[int] | None = None,
        from_id: int = 0,
        domain: str | None = None,
        subcluster: str | None = None,
        after_utc: float | None = None,
        before_utc: float | None = None,
        speaker: str | None = None,
        superseded: bool | None = None,
    ) -> Iterator[Row]:
        """Rows for ``deposit_of`` by rising id; what is None is not asked for."""
        conditions: list[str] = []
        values: list[object] = []
        for column, value in (("domain", domain), ("subcluster", subcluster), ("speaker", speaker)):
            if value is not None:
                conditions.append(f"{column} = ?")
                values.append(to_sql(value))
        for comparison, bound in (("time_utc >= ?", after_utc), ("time_utc < ?", before_utc)):
            if bound is not None:
                conditions.append(comparison)
                values.append(bound)
        if superseded is not None:
            conditions.append(_superseded(superseded))
        if from_id:
            conditions.append("id >= ?")
            values.append(from_id)
        for part in [None] if ids is None else _parts(sorted(set(ids))):
            among = [] if part is None else [f"id IN ({_marks(part)})"]
            where = " AND ".join(["id > ?", *conditions, *among])
            sql = f"{_DEPOSIT} WHERE {where} ORDER BY id LIMIT {PAGE_OF_ROWS}"
            yield from self._paged(sql, [*values, *(part or ())])

    def id_before(self, deposit_id: int, places: int) -> int:
        """The id of the deposit so many places before this one, what was superseded not counted; 0 beyond the first."""
        sql = f"SELECT id FROM deposits WHERE id < ? AND {_superseded(False)} ORDER BY id DESC LIMIT 1 OFFSET ?"
        row = self._one(sql, (deposit_id, places - 1))
        return 0 if row is None else self._int(row[0])

    def keys_in(
        self, groups: Sequence[Group], dim: int, superseded: bool | None, *, only_sound: bool = False
    ) -> tuple[Int64[np.ndarray, " n"], Float32[np.ndarray, "n E"]]:
        """Keys of whole sub-clusters, one query each, and whose they are."""
        condition = "" if superseded is None else f" AND {_superseded(superseded)}"
        sql = f"{_KEYS} WHERE d.domain = ? AND d.subcluster = ?{condition} ORDER BY d.id"
        ids: list[int] = []
        found: list[Float32[np.ndarray, "_ E"]] = [np.empty((0, dim), np.float32)]
        for domain, subcluster in dict.fromkeys(groups):
            for row in self._all(sql, (to_sql(domain), to_sql(subcluster))):
                entry = keys_or_error(row, dim)
                if isinstance(entry, DamagedCorpusError):
                    if only_sound:
                        continue
                    raise entry
                ids += [entry.deposit_id] * len(entry.keys)
                found.append(entry.keys)
        return np.array(ids, np.int64), np.concatenate(found).astype(np.float32, copy=False)

    def key_rows(self, deposit_ids: Sequence[int] | None) -> Iterator[Row]:
        """Rows for ``keys_of`` by rising id: of these deposits, or of all."""
        if deposit_ids is None:
            yield from self._paged(f"{_KEYS} WHERE d.id > ? ORDER BY d.id LIMIT {PAGE_OF_ROWS}", [])
            return
        for part in _parts(sorted(set(deposit_ids))):
            yield from self._all(f"{_KEYS} WHERE d.id IN ({_marks(part)}) ORDER BY d.id", part)

    def groups(self) -> list[GroupSize]:
        """The sub-clusters that hold a deposit, from their counters."""
        rows = self._all("SELECT domain, subcluster, num_deposits, num_tokens FROM groups ORDER BY 1, 2")
        return [GroupSize(*self._group(row), self._int(row[2]), self._int(row[3])) for row in rows]

    def miscounted_groups(self) -> list[str]:
        """Sub-clusters whose deposits are counted wrongly, a line each, from an index alone."""
        counted = "SELECT domain, subcluster, count(*) FROM deposits INDEXED BY deposits_by_group GROUP BY 1, 2"
        kept = "SELECT domain, subcluster, num_deposits FROM groups"
        rows = self._all(f"SELECT * FROM ({counted} EXCEPT {kept}) UNION SELECT * FROM ({kept} EXCEPT {counted})")
        return [_miscount(row) for row in rows]

    def recount_groups(self) -> None:
        """Counts the deposits of every sub-cluster anew."""
        self._run("DELETE FROM groups")
        self._run("INSERT INTO groups SELECT domain, subcluster, count(*), sum(num_tokens) FROM deposits GROUP BY 1, 2")

    def miscounted(self) -> Iterator[str]:
        """What the counters say otherwise than the rows they count, a line each."""
        counted = """SELECT domain, subcluster, count(*), sum(num_tokens) FROM deposits GROUP BY 1, 2"""
        kept = "SELECT domain, subcluster, num_deposits, num_tokens FROM groups"
        for row in self._all(f"SELECT * FROM ({counted} EXCEPT {kept}) UNION SELECT * FROM ({kept} EXCEPT {counted})"):
            yield _miscount(row)
        sql = "SELECT id FROM deposits d WHERE num_states <> (SELECT count(*) FROM states s WHERE s.deposit_id = d.id)"
        for row in self._all(sql):
            yield f"the catalogue is damaged: the states of deposit {row[0]} are counted wrongly"

    def coldest(self, record_bytes: int) -> Iterator[KeptStates]:
        """Deposits that still have states, the one that was not used for the longest time first."""
        after: tuple[float, int] = (-1e308, 0)
        sql = f"""SELECT id, num_states, accessed_at, num_accesses, importance, time_utc, domain, subcluster,
            superseded_by FROM deposits WHERE num_states > 0 AND (accessed_at, id) > (?, ?)
            ORDER BY accessed_at, id LIMIT {PAGE_OF_ROWS}"""
        while rows := self._all(sql, after):
            for row in rows:
                yield self._kept(row, record_bytes)
            after = (self._number(rows[-1][2]), self._int(rows[-1][0]))

    def _kept(self, row: Row, record_bytes: int) -> KeptStates:
        count, utc = self._int(row[1]), row[5]
        return KeptStates(
            deposit_id=self._int(row[0]),
            num_states=count,
            num_bytes=count * record_bytes,
            accessed_at=self._number(row[2]),
            num_accesses=self._int(row[3]),
            importance=self._number(row[4]),
            time_utc=None if utc is None else self._number(utc),
            domain=self._text(row[6]),
            subcluster=self._text(row[7]),
            is_superseded=row[8] is not None,
        )

    def _among(self, sql: str, deposit_ids: Sequence[int]) -> Iterator[Row]:
        for part in _parts(deposit_ids):
            yield from self._all(f"{sql} ({_marks(part)})", part)

    def _group(self, row: Row) -> Group:
        return self._text(row[0]), self._text(row[1])

    def _number(self, value: object) -> float:
        try:
            return number_of(value)
        except ValueError as error:
            raise self._damaged("a row", f"{self._path} ({error})") from error

    def _text(self, value: object) -> str:
        try:
            return text_of(value)
        except ValueError as error:
            raise self._damaged("a row", f"{self._path} ({error})") from error


def deposit_or_error(row: Row) -> Deposit | DamagedCorpusError:
    """A deposit, or the error that names it."""
    try:
        return deposit_of(row)
    except DamagedCorpusError as error:
        return error


def keys_or_error(row: Row, dim: int) -> DepositKeys | DamagedCorpusError:
    """The keys of a deposit, or the error that names them."""
    try:
        return keys_of(row, dim)
    except DamagedCorpusError as error:
        return error


def _miscount(row: Row) -> str:
    return f"the catalogue is damaged: sub-cluster {row[0]}/{row[1]} is counted wrongly"


def _superseded(wanted: bool) -> str:
    return f"superseded_by IS {'NOT ' if wanted else ''}NULL"


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _parts(deposit_ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(deposit_ids), PAGE_OF_ROWS):
        yield deposit_ids[start : start + PAGE_OF_ROWS]
