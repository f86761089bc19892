"""The catalogue: which documents, chunks, keys and states a corpus holds, in one SQLite file.

Nothing outside this room knows that it is SQLite. A catalogue knows where a state lies, never what is in it.
"""

import contextlib
import json
import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from precog.errors import CorpusError, DamagedCorpusError
from precog.store.failure import catalogue_error, guarded, looking
from precog.store.migrations import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION
from precog.store.record import Location
from precog.store.remedy import keys_anew
from precog.store.row_builder import Row, bytes_of, chunk_of, damaged, document_of, int_of, keys_of, text_of, to_sql
from precog.store.rows import Chunk, ChunkInfo, ChunkKeys, ChunkText, Document, DocumentInfo
from precog.store.seal import seal_of_chunk, seal_of_keys

_PAGE_OF_ROWS = 512
_BUSY_TIMEOUT_SEC = 5.0
_READER_CACHE_KIB = 16_384  # SQLite's own 2 MB do not hold the rows of 10,000 chunks
_DOCUMENT = """SELECT d.id, d.source, d.media_type, d.raw_sha256, d.size_bytes, d.mtime_ns, d.details, d.status,
    d.reason, (SELECT count(*) FROM chunks c WHERE c.document_id = d.id) FROM documents d"""
_CHUNK = """SELECT c.id, c.document_id, d.source, c.ordinal, c.page, c.span_start, c.span_end, c.text, c.context,
    c.details, c.seal, c.state_id, s.num_tokens, s.segment, s.slot, s.content_hash
    FROM chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN states s ON s.id = c.state_id"""
_KEYS = """SELECT c.id, d.source, c.ordinal, c.seal, k.num_windows, k.vectors, k.seal
    FROM chunks c JOIN documents d ON d.id = c.document_id LEFT JOIN keys k ON k.chunk_id = c.id"""

_VISIBLE = "FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.status = 'indexed'"


class Catalogue:
    """One connection to the catalogue file; safe to use from several threads, one statement at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._remedy = keys_anew(path.parent.parent)
        self._connection = connection
        self._lock = threading.RLock()

    @classmethod
    def create(cls, path: Path) -> "Catalogue":
        """Makes an empty catalogue that only its owner may read.

        Raises:
            StorageError: it cannot be written.
        """
        with guarded(path):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA page_size = 4096")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        return cls(path, connection)._prepared_to_write()

    @classmethod
    def open(cls, path: Path, *, write: bool) -> "Catalogue":
        """Opens an existing catalogue and, to write, brings it forward to the present tables.

        Raises:
            DamagedCorpusError: missing, truncated, or not a catalogue.
            CorpusError: of a newer version.
        """
        with looking(path):
            is_file = path.is_file()
        if not is_file:
            hint = "restore it from a backup, or index the documents again into a new folder"
            raise DamagedCorpusError(f"the catalogue is missing: {path}", hint=hint)
        options = "mode=rw" if write else "mode=ro"
        if not write and not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
            options = "mode=ro&immutable=1"  # a read-only medium: nobody can be writing
        uri = f"file:{urllib.parse.quote(os.fsencode(path))}?{options}"
        with guarded(path):
            connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_SEC
            )
            try:
                cls._check_version(path, connection)
            except BaseException:
                connection.close()
                raise
        if not write:
            connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
            return cls(path, connection)
        return cls(path, connection)._prepared_to_write()

    @staticmethod
    def _check_version(path: Path, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise DamagedCorpusError(f"the catalogue is damaged: {path} is not a catalogue of PRECOG")
        if version > SCHEMA_VERSION:
            hint = "install a newer version of PRECOG"
            raise CorpusError("the corpus has a newer format", given=version, expected=f"≤ {SCHEMA_VERSION}", hint=hint)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version:
            connection.execute("SELECT key FROM meta LIMIT 1").fetchone()

    def _prepared_to_write(self) -> "Catalogue":
        with guarded(self._path):
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "secure_delete = ON",
                "foreign_keys = ON",
                "recursive_triggers = ON",
            ):
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            for number, migrate in enumerate(MIGRATIONS[version:], start=version + 1):
                with self.transaction():
                    migrate(self._connection)
                    self._connection.execute(f"PRAGMA user_version = {number}")
        return self

    def close(self) -> None:
        """Closes the connection."""
        with self._lock, guarded(self._path):
            self._connection.close()

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
        """A setting of the corpus."""
        row = self._one("SELECT value FROM meta WHERE key = ?", (key,))
        return None if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        """Changes a setting of the corpus."""
        self._run("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (key, value))

    def bump_generation(self) -> None:
        """Counts a change; index files of an older generation are rebuilt."""
        self._run("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'")

    def delete_meta(self, key: str) -> None:
        """Removes a setting of the corpus."""
        self._run("DELETE FROM meta WHERE key = ?", (key,))

    def number(self, key: str) -> int:
        """A setting that is a number.

        Raises:
            DamagedCorpusError: it is missing, or none.
        """
        value = self.get_meta(key)
        if value is None or not (value.isascii() and value.isdigit()):
            raise damaged(f"its {key}", repr(value))
        return int(value)

    def segments(self) -> dict[int, int]:
        """Acknowledged records of each segment file."""
        rows = self._all("SELECT number, num_records FROM segments")
        return {self._int(number): self._int(count) for number, count in rows}

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

    def add_document(self, info: DocumentInfo, status: str, reason: str | None) -> int:
        """Adds a row; the caller has made room for its source."""
        sql = """INSERT INTO documents (source, media_type, raw_sha256, size_bytes, mtime_ns, status, reason, details)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
        reason_value = None if reason is None else to_sql(reason)
        values = (info.media_type, info.raw_sha256, info.size_bytes, info.mtime_ns, status, reason_value)
        return self._insert(sql, (to_sql(info.source), *values, _json(info.details)))

    def update_document(self, document_id: int, info: DocumentInfo, status: str, reason: str | None) -> None:
        """Replaces what is known of a document; its source stays."""
        sql = """UPDATE documents SET media_type = ?, raw_sha256 = ?, size_bytes = ?, mtime_ns = ?, status = ?,
            reason = ?, details = ? WHERE id = ?"""
        reason_value = None if reason is None else to_sql(reason)
        values = (info.media_type, info.raw_sha256, info.size_bytes, info.mtime_ns, status, reason_value)
        self._run(sql, (*values, _json(info.details), document_id))

    def delete_document(self, document_id: int) -> None:
        """Removes a document, its chunks and keys, and every state that no other chunk has read."""
        self._run("DELETE FROM documents WHERE id = ?", (document_id,))

    def delete_unused_states(self) -> None:
        """Removes the rows of states that no chunk names, leaving tombstones for their bytes."""
        self._run("DELETE FROM states WHERE num_references = 0")

    def documents(self, source: str | None = None, status: str | None = None) -> Iterator[Document]:
        """Documents in the order they were added."""
        sql = f"{_DOCUMENT} WHERE d.id > ?"
        values: list[object] = []
        if source is not None:
            sql, values = f"{sql} AND d.source = ?", [*values, to_sql(source)]
        if status is not None:
            sql, values = f"{sql} AND d.status = ?", [*values, status]
        return (document_of(row) for row in self._paged(f"{sql} ORDER BY d.id LIMIT {_PAGE_OF_ROWS}", values))

    def document(self, document_id: int) -> Document | None:
        """The document of that id."""
        row = self._one(f"{_DOCUMENT} WHERE d.id = ?", (document_id,))
        return None if row is None else document_of(row)

    def add_state(self, content_hash: bytes, location: Location, num_tokens: int) -> int:
        """Records where a new state lies."""
        sql = "INSERT INTO states (content_hash, segment, slot, num_tokens) VALUES (?, ?, ?, ?)"
        return self._insert(sql, (content_hash, location.segment, location.slot, num_tokens))

    def find_state(self, content_hash: bytes) -> int | None:
        """The state of that name, if it is stored."""
        row = self._one("SELECT id FROM states WHERE content_hash = ?", (content_hash,))
        return None if row is None else self._int(row[0])

    def move_state(self, state_id: int, location: Location) -> None:
        """Records the new place of a state."""
        sql = "UPDATE states SET segment = ?, slot = ? WHERE id = ?"
        self._run(sql, (location.segment, location.slot, state_id))

    def states(self) -> Iterator[tuple[int, Location, bytes]]:
        """Every state with its place and content hash, in the order they were added."""
        sql = f"SELECT id, segment, slot, content_hash FROM states WHERE id > ? ORDER BY id LIMIT {_PAGE_OF_ROWS}"
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

    def add_chunk(self, document_id: int, info: ChunkInfo, state_id: int, num_windows: int, vectors: bytes) -> int:
        """Adds a chunk with its keys (float32, little-endian), both sealed with a checksum."""
        sql = """INSERT INTO chunks
            (document_id, ordinal, page, span_start, span_end, text, context, details, state_id, seal)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
        named = self._one("SELECT source FROM documents WHERE id = ?", (document_id,))
        read = self._one("SELECT content_hash FROM states WHERE id = ?", (state_id,))
        if named is None or read is None:
            raise CorpusError("a chunk needs its document and its state", given=f"{document_id}, {state_id}")
        place, details = (info.ordinal, info.page, *info.span), _json(info.details)
        seal = seal_of_chunk(text_of(named[0]), place, info.text, info.context, details, self._bytes(read[0]))
        text = (to_sql(info.text), to_sql(info.context), details)
        chunk_id = self._insert(sql, (document_id, *place, *text, state_id, seal))
        keys = (chunk_id, num_windows, vectors, seal_of_keys(seal, num_windows, vectors))
        self._run("INSERT INTO keys VALUES (?, ?, ?, ?)", keys)
        return chunk_id

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
        """The chunks of these ids; those that are gone are left out."""
        found: dict[int, Chunk] = {}
        for start in range(0, len(chunk_ids), _PAGE_OF_ROWS):
            part = chunk_ids[start : start + _PAGE_OF_ROWS]
            rows = self._all(f"{_CHUNK} WHERE c.id IN ({', '.join('?' * len(part))})", part)
            found.update((chunk.id, chunk) for chunk in map(chunk_of, rows))
        return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}

    def chunks_of(self, document_id: int) -> Iterator[Chunk]:
        """A document's chunks in order.

        Raises:
            DamagedCorpusError: one is not what was written.
        """
        return map(chunk_of, self._chunk_rows(document_id))

    def checked_chunks_of(self, document_id: int) -> Iterator[Chunk | DamagedCorpusError]:
        """A document's chunks in order, a damaged one as the error that names it."""
        return (_chunk_or_error(row) for row in self._chunk_rows(document_id))

    def checked_keys_of(self, document_id: int, dim: int) -> Iterator[ChunkKeys | DamagedCorpusError]:
        """The keys of a document's chunks, damaged ones as the error that names them."""
        rows = self._paged(
            f"{_KEYS} WHERE c.id > ? AND c.document_id = ? ORDER BY c.id LIMIT {_PAGE_OF_ROWS}", [document_id]
        )
        return (_keys_or_error(row, dim, self._remedy) for row in rows)

    def _chunk_rows(self, document_id: int) -> Iterator[Row]:
        sql = f"{_CHUNK} WHERE c.id > ? AND c.document_id = ? ORDER BY c.id LIMIT {_PAGE_OF_ROWS}"
        return self._paged(sql, [document_id])

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

    def locate(self, chunk_id: int) -> tuple[Location, bytes] | None:
        """Where the state of a chunk lies, and its content hash."""
        sql = """SELECT s.segment, s.slot, s.content_hash FROM chunks c JOIN states s ON s.id = c.state_id
            WHERE c.id = ?"""
        row = self._one(sql, (chunk_id,))
        return None if row is None else (self._place(row[:2]), self._bytes(row[2]))

    def visible_chunk_ids(self) -> Iterator[int]:
        """Ids of all chunks of indexed documents, rising."""
        sql = f"SELECT c.id {_VISIBLE} AND c.id > ? ORDER BY c.id LIMIT {_PAGE_OF_ROWS}"
        return (self._int(row[0]) for row in self._paged(sql, []))

    def keys(self, chunk_ids: Sequence[int] | None, dim: int) -> Iterator[ChunkKeys]:
        """Keys of the visible chunks among these, or of all of them by rising id."""
        return (keys_of(row, dim, self._remedy) for row in self._visible(_KEYS, chunk_ids))

    def key_bytes(self, chunk_id: int) -> bytes:
        """The keys of one chunk, float32 little-endian."""
        row = self._one("SELECT vectors FROM keys WHERE chunk_id = ?", (chunk_id,))
        return b"" if row is None else self._bytes(row[0])

    def texts(self, chunk_ids: Sequence[int] | None) -> Iterator[ChunkText]:
        """Texts of the visible chunks among these, or of all of them by rising id."""
        chunks = map(chunk_of, self._visible(_CHUNK, chunk_ids))
        return (ChunkText(chunk.id, chunk.info.text, chunk.info.context) for chunk in chunks)

    def counts(self) -> dict[str, int]:
        """Documents, failures, chunks, states, tokens, and bytes of keys and text."""
        sql = """SELECT (SELECT count(*) FROM documents WHERE status = 'indexed'),
            (SELECT count(*) FROM documents WHERE status = 'failed'), (SELECT count(*) FROM chunks),
            (SELECT count(*) FROM states),
            (SELECT coalesce(sum(s.num_tokens), 0) FROM chunks c JOIN states s ON s.id = c.state_id),
            (SELECT coalesce(sum(length(vectors)), 0) FROM keys),
            (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM chunks)"""
        row = self._one(sql) or ()
        names = ("num_documents", "num_failed", "num_chunks", "num_states", "num_tokens", "key_bytes", "text_bytes")
        return dict(zip(names, map(self._int, row), strict=True))

    def scrub(self) -> bool:
        """Rewrites the file without anything deleted and empties the write-ahead log; False if a reader held it."""
        self._run("VACUUM")
        row = self._one("PRAGMA wal_checkpoint(TRUNCATE)")
        return row is not None and row[0] == 0

    def _run(self, sql: str, values: Sequence[object] = ()) -> None:
        with self._lock, guarded(self._path):
            self._connection.execute(sql, values)

    def _insert(self, sql: str, values: Sequence[object]) -> int:
        with self._lock, guarded(self._path):
            row_id = self._connection.execute(sql, values).lastrowid
        assert row_id is not None
        return row_id

    def _one(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        # every state that is read passes here: one try costs a tenth of what guarded() does
        try:
            with self._lock:
                row: Row | None = self._connection.execute(sql, values).fetchone()
        except sqlite3.Error as error:
            raise catalogue_error(error, self._path) from error
        except UnicodeDecodeError as error:
            raise damaged("a name", error) from error
        return row

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self._lock, guarded(self._path):
            return self._connection.execute(sql, values).fetchall()

    def _visible(self, sql: str, chunk_ids: Sequence[int] | None) -> Iterator[Row]:
        sql = f"{sql} WHERE d.status = 'indexed'"
        if chunk_ids is None:
            yield from self._paged(f"{sql} AND c.id > ? ORDER BY c.id LIMIT {_PAGE_OF_ROWS}", [])
            return
        for chunk_id in chunk_ids:
            row = self._one(f"{sql} AND c.id = ?", (chunk_id,))
            if row is not None:
                yield row

    def _paged(self, sql: str, values: list[object]) -> Iterator[Row]:
        # Pages keep memory flat and never hold a snapshot (and with it the write-ahead log) between two calls.
        after = 0
        while rows := self._all(sql, (after, *values)):
            yield from rows
            after = self._int(rows[-1][0])

    def _int(self, value: object) -> int:
        try:
            return int_of(value)
        except ValueError as error:
            raise damaged("a row", f"{self._path} ({error})") from error

    def _bytes(self, value: object) -> bytes:
        try:
            return bytes_of(value)
        except ValueError as error:
            raise damaged("a row", f"{self._path} ({error})") from error

    def _place(self, row: Sequence[object]) -> Location:
        return Location(self._int(row[0]), self._int(row[1]))


def _chunk_or_error(row: Row) -> Chunk | DamagedCorpusError:
    try:
        return chunk_of(row)
    except DamagedCorpusError as error:
        return error


def _keys_or_error(row: Row, dim: int, hint: str) -> ChunkKeys | DamagedCorpusError:
    try:
        return keys_of(row, dim, hint)
    except DamagedCorpusError as error:
        return error


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)
