"""One SQLite file that says what a folder holds: opening, commit units, settings, and where records lie.

Nothing outside this room knows that it is SQLite. Subclasses add the rows of their kind of folder.
"""

import contextlib
import math
import os
import secrets
import sqlite3
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from precog.errors import CorpusError, DamagedCorpusError
from precog.store.database_copy import copy_connection
from precog.store.failure import catalogue_error, guarded, looking
from precog.store.kind import FolderKind
from precog.store.open_files import Place, connected, disconnected
from precog.store.record import Location
from precog.store.row_builder import Row, bytes_of, damaged, int_of
from precog.store.seal import seal_of_settings

PAGE_OF_ROWS = 512
_BUSY_TIMEOUT_SEC = 5.0
_READER_CACHE_KIB = 16_384  # SQLite's own 2 MB do not hold the rows of 10,000 chunks
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # integers of SQLite
_SEAL = "seal"
_COMMITS_KNOWN = 1024  # an index that is more commits behind than that is made anew
_SETTINGS = ("settings", "layout", "fingerprint", "key_dim", "max_segment_bytes", "replaces")
DatabaseType = TypeVar("DatabaseType", bound="Database")


class Database:
    """One connection to the file; safe to use from several threads, one statement at a time."""

    KIND: ClassVar[FolderKind]
    SEALS_EVERY_TEXT: ClassVar[bool] = False  # then text that is no UTF-8 is read, and fails the seal of its row alone

    def __init__(self, path: Path, connection: sqlite3.Connection, place: Place) -> None:
        self._path = path
        self._place_of_file: Place | None = place  # until it is closed
        self._remedy = self.KIND.keys_anew(path.parent.parent)
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def create(cls: type[DatabaseType], path: Path) -> DatabaseType:
        """Makes an empty catalogue that only its owner may read.

        Raises:
            StorageError: it cannot be written.
        """
        with guarded(path, cls.KIND.catalogue_anew):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            made = cls._connected(path, path)
            try:
                made._run("PRAGMA page_size = 4096")
                made._run(f"PRAGMA application_id = {cls.KIND.application_id}")
            except BaseException:
                made.close()
                raise
        return made._prepared_to_write()

    @classmethod
    def open(cls: type[DatabaseType], path: Path, *, write: bool) -> DatabaseType:
        """Opens an existing catalogue and, to write, brings it forward to the present tables.

        Raises:
            DamagedCorpusError: missing, truncated, or not a catalogue.
            CorpusError: of a newer version.
        """
        with looking(path, cls.KIND.name):
            is_file = path.is_file()
        if not is_file:
            raise DamagedCorpusError(f"the catalogue is missing: {path}", hint=cls.KIND.catalogue_anew)
        options = "mode=rw" if write else "mode=ro"
        if not write and not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
            options = "mode=ro&immutable=1"  # a read-only medium: nobody can be writing
        uri = f"file:{urllib.parse.quote(os.fsencode(path))}?{options}"
        with guarded(path, cls.KIND.catalogue_anew):
            opened = cls._connected(path, uri)
            try:
                cls._check_version(path, opened._connection)
            except BaseException:
                opened.close()
                raise
        if not write:
            opened._connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
            return opened
        return opened._prepared_to_write()

    @classmethod
    def _connected(cls: type[DatabaseType], path: Path, address: Path | str) -> DatabaseType:
        place = connected(path)
        try:
            connection = sqlite3.connect(
                address,
                uri=isinstance(address, str),
                isolation_level=None,
                check_same_thread=False,
                timeout=_BUSY_TIMEOUT_SEC,
            )
        except BaseException:
            disconnected(place)
            raise
        return cls(path, connection, place)

    @classmethod
    def _check_version(cls, path: Path, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != cls.KIND.application_id:
            kind = cls.KIND
            expected = f"the catalogue of a {kind.name}"
            message = f"the catalogue is damaged: {path} is not a catalogue of PRECOG"
            raise DamagedCorpusError(message, expected=expected, hint=kind.catalogue_anew)
        if version > (newest := len(cls.KIND.migrations)):
            hint = "install a newer version of PRECOG"
            message = f"the {cls.KIND.name} has a newer format"
            raise CorpusError(message, given=version, expected=f"≤ {newest}", hint=hint)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version:
            connection.execute("SELECT key FROM meta LIMIT 1").fetchone()

    def _prepared_to_write(self: DatabaseType) -> DatabaseType:
        try:
            self._prepare_to_write()
        except BaseException:
            self.close()
            raise
        return self

    def _prepare_to_write(self) -> None:
        with guarded(self._path, self.KIND.catalogue_anew):
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "secure_delete = ON",
                "foreign_keys = ON",
                "recursive_triggers = ON",
            ):
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            for number, migrate in enumerate(self.KIND.migrations[version:], start=version + 1):
                with self.transaction():
                    migrate(self._connection)
                    self._connection.execute(f"PRAGMA user_version = {number}")

    def copy_to(self, path: Path) -> None:
        """Writes what is committed now into a new file, without the bytes of what was deleted; writers go on.

        Raises:
            StorageError: the disk refuses.
            DamagedCorpusError: the file is damaged.
        """
        with self._lock:
            copy_connection(self._connection, path)

    def close(self) -> None:
        """Closes the connection."""
        with self._lock, guarded(self._path, self.KIND.catalogue_anew):
            self._connection.close()
            if self._place_of_file is not None:
                disconnected(self._place_of_file)
                self._place_of_file = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One commit unit: everything of the block, or nothing."""
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def begin(self) -> None:
        """Starts a commit unit."""
        if self._connection.in_transaction:
            raise CorpusError("a commit unit is open already", hint="leave its block before starting another")
        self._run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Returns when the commit unit is on the disk.

        Raises:
            StorageError: the disk refuses; the unit is undone.
        """
        try:
            self._run("COMMIT")
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        """Undoes the commit unit, if one is open."""
        with self._lock:
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

    def get_meta(self, key: str) -> str | None:
        """A setting of the folder."""
        row = self._one("SELECT value FROM meta WHERE key = ?", (key,))
        return None if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        """Changes a setting of the folder."""
        self._run("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (key, value))

    def seal_settings(self) -> None:
        """Seals what the folder was made with, so that a flipped bit in it is noticed."""
        self.set_meta(_SEAL, seal_of_settings(self._sealed()))

    def check_settings(self) -> bool:
        """Compares the seal of what the folder was made with; False where it was made before there was one.

        Raises:
            DamagedCorpusError: the settings are not what was written.
        """
        if (seal := self.get_meta(_SEAL)) is None:
            return False
        if seal != seal_of_settings(self._sealed()):
            what, reason = f"the settings of the {self.KIND.name}", "their checksum does not match"
            raise damaged(what, reason, self.KIND.catalogue_anew, are_many=True)
        return True

    def _sealed(self) -> dict[str, str]:
        names = (*_SETTINGS, self.KIND.id_key)
        found = self._all(f"SELECT key, value FROM meta WHERE key IN ({', '.join('?' * len(names))})", names)
        return {str(key): str(value) for key, value in found}

    def begin_generations(self) -> None:
        """Starts to count the changes of an empty catalogue."""
        self.set_meta("generation", "0")
        self._name_commit(0)

    def bump_generation(self) -> None:
        """Counts a change and gives it an id: index files of another one are brought up to date, or made anew."""
        self._run("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'")
        generation = self.number("generation")
        self._name_commit(generation)
        self.delete_meta(_commit_key(generation - _COMMITS_KNOWN))

    def commit_of(self, generation: int) -> str | None:
        """The id of the commit that made a generation; None where it is not known, "" where no commit has one."""
        found = self.get_meta(_commit_key(generation))
        if found is None and self.get_meta(_commit_key(self.number("generation"))) is None:
            return ""
        return found

    def _name_commit(self, generation: int) -> None:
        self.set_meta(_commit_key(generation), secrets.token_hex(8))

    def delete_meta(self, key: str) -> None:
        """Removes a setting of the folder."""
        self._run("DELETE FROM meta WHERE key = ?", (key,))

    def number(self, key: str) -> int:
        """A setting that is a number.

        Raises:
            DamagedCorpusError: it is missing, or none.
        """
        value = self.get_meta(key)
        if value is None or not (value.isascii() and value.isdigit()):
            raise self._damaged(f"its {key}", repr(value))
        return int(value)

    def segments(self) -> dict[int, int]:
        """Acknowledged records of each segment file."""
        rows = self._all("SELECT number, num_records FROM segments WHERE number >= 0")
        return {self._int(number): self._int(count) for number, count in rows}

    def records_named(self, segment: int, before: int) -> int:
        """Records of a segment file, of so many in it, that a state needs: those up to the last one it is named in."""
        row = self._one("SELECT max(slot) FROM states WHERE segment = ? AND slot < ?", (segment, before))
        return 0 if row is None or row[0] is None else self._int(row[0]) + 1

    def set_segments(self, counts: dict[int, int]) -> None:
        """Acknowledges the records of each segment file."""
        for number, count in counts.items():
            sql = "INSERT INTO segments VALUES (?, ?) ON CONFLICT DO UPDATE SET num_records = excluded.num_records"
            self._run(sql, (number, count))

    def drop_segments(self, numbers: Iterable[int]) -> None:
        """Forgets segment files that hold no state any more."""
        for number in numbers:
            self._run("DELETE FROM tombstones WHERE segment = ?", (number,))
            self._run("DELETE FROM segments WHERE number = ?", (number,))

    def move_state(self, state_id: int, location: Location) -> None:
        """Records the new place of a state."""
        sql = "UPDATE states SET segment = ?, slot = ? WHERE id = ?"
        self._run(sql, (location.segment, location.slot, state_id))

    def states(self) -> Iterator[tuple[int, Location, bytes]]:
        """Every stored state with its place and content hash, in the order they were added."""
        sql = f"""SELECT id, segment, slot, content_hash FROM states WHERE id > ? AND segment >= 0
            ORDER BY id LIMIT {PAGE_OF_ROWS}"""
        rows = self._paged(sql, [])
        return ((self._int(row[0]), self._place(row[1:3]), self._bytes(row[3])) for row in rows)

    def tombstones(self) -> list[Location]:
        """Places whose bytes are to be erased."""
        return [self._place(row) for row in self._all("SELECT segment, slot FROM tombstones ORDER BY 1, 2")]

    def clear_tombstones(self, locations: Iterable[Location]) -> None:
        """Records that the bytes of these places are erased."""
        for location in locations:
            sql = "DELETE FROM tombstones WHERE segment = ? AND slot = ?"
            self._run(sql, (location.segment, location.slot))

    def complaints(self) -> list[str]:
        """What SQLite itself finds wrong with the file and with the references between rows."""
        try:
            found = [str(row[0]) for row in self._all("PRAGMA integrity_check(20)") if row[0] != "ok"]
            found += [
                f"{row[0]} {row[1]} names a row of {row[2]} that is gone"
                for row in self._all("PRAGMA foreign_key_check")
            ]
        except DamagedCorpusError as error:
            return [str(error)]
        return [f"the catalogue is damaged: {' '.join(line.split())}" for line in found]

    def scrub(self) -> bool:
        """Rewrites the file without anything deleted and empties the write-ahead log; False if a reader held it."""
        self._run("VACUUM")
        row = self._one("PRAGMA wal_checkpoint(TRUNCATE)")
        return row is not None and row[0] == 0

    def _run(self, sql: str, values: Sequence[object] = ()) -> None:
        with self._lock, guarded(self._path, self.KIND.catalogue_anew), _kept(values):
            self._connection.execute(sql, values)

    def _insert(self, sql: str, values: Sequence[object]) -> int:
        with self._lock, guarded(self._path, self.KIND.catalogue_anew), _kept(values):
            row_id = self._connection.execute(sql, values).lastrowid
        assert row_id is not None
        return row_id

    def _one(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        # every state that is read passes here: one try costs a tenth of what guarded() does
        try:
            with self._lock:
                row: Row | None = self._connection.execute(sql, values).fetchone()
        except sqlite3.Error as error:
            if self._reads_on(error):
                return self._one(sql, values)
            raise catalogue_error(error, self._path, self.KIND.catalogue_anew) from error
        except UnicodeDecodeError as error:
            raise self._damaged("a name", error) from error
        except OverflowError:
            return self._one(sql, _comparable(values))
        return row

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self._lock, guarded(self._path, self.KIND.catalogue_anew):
            try:
                return self._connection.execute(sql, values).fetchall()
            except OverflowError:
                return self._connection.execute(sql, _comparable(values)).fetchall()
            except sqlite3.Error as error:
                if not self._reads_on(error):
                    raise
                return self._all(sql, values)

    def _reads_on(self, error: sqlite3.Error) -> bool:
        """Whether to try a statement again: bytes that are no UTF-8 become text that nobody can have written."""
        if not self.SEALS_EVERY_TEXT or "Could not decode to UTF-8" not in str(error):
            return False
        if self._connection.text_factory is _escaped:
            return False
        self._connection.text_factory = _escaped
        return True

    def _paged(self, sql: str, values: list[object]) -> Iterator[Row]:
        # Pages keep memory flat and never hold a snapshot (and with it the write-ahead log) between two calls.
        after = 0
        while rows := self._all(sql, (after, *values)):
            yield from rows
            if len(rows) < PAGE_OF_ROWS:
                return
            before, after = after, self._int(rows[-1][0])
            if after <= before:  # a damaged page would be read for ever
                raise self._damaged("the order of its rows", f"{after} after {before}")

    def _int(self, value: object) -> int:
        try:
            return int_of(value)
        except ValueError as error:
            raise self._damaged("a row", f"{self._path} ({error})") from error

    def _bytes(self, value: object) -> bytes:
        try:
            return bytes_of(value)
        except ValueError as error:
            raise self._damaged("a row", f"{self._path} ({error})") from error

    def _place(self, row: Sequence[object]) -> Location:
        return Location(self._int(row[0]), self._int(row[1]))

    def _damaged(self, what: str, reason: object) -> DamagedCorpusError:
        return damaged(what, reason, self.KIND.catalogue_anew)


def _commit_key(generation: int) -> str:
    return f"commit {generation}"


def _escaped(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _comparable(values: Sequence[object]) -> list[object]:
    """Values of a question, integers that no row can hold as reals: they equal none, and order as they should."""
    return [_real(value) if isinstance(value, int) and not _LEAST <= value <= _MOST else value for value in values]


def _real(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@contextlib.contextmanager
def _kept(values: Sequence[object]) -> Iterator[None]:
    try:
        yield
    except OverflowError as error:
        given = next(value for value in values if isinstance(value, int) and not _LEAST <= value <= _MOST)
        raise CorpusError("a number is too large to be kept", given=f"{_real(given):g}", expected="64 bits") from error
