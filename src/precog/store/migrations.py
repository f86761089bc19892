"""The tables of the catalogue, as a numbered list of steps; a catalogue is brought forward on opening it to write.

Text is TEXT where it is valid Unicode and otherwise a BLOB of its UTF-8 bytes with surrogates kept, because file
names and JSON strings need not be valid.
"""

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x50524543  # "PREC"


def _m001_first_tables(connection: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE segments (
            number INTEGER PRIMARY KEY,
            num_records INTEGER NOT NULL
        )""",
        """CREATE TABLE documents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            source NOT NULL,
            media_type TEXT NOT NULL,
            raw_sha256 BLOB NOT NULL,
            size_bytes INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('indexing', 'indexed', 'failed')),
            reason,
            details TEXT NOT NULL
        )""",
        # a changed document is built as a second row beside the one that still answers
        "CREATE UNIQUE INDEX documents_settled ON documents (source) WHERE status <> 'indexing'",
        "CREATE UNIQUE INDEX documents_indexing ON documents (source) WHERE status = 'indexing'",
        """CREATE TABLE states (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            content_hash BLOB NOT NULL UNIQUE,
            segment INTEGER NOT NULL REFERENCES segments (number) DEFERRABLE INITIALLY DEFERRED,
            slot INTEGER NOT NULL,
            num_tokens INTEGER NOT NULL,
            num_references INTEGER NOT NULL DEFAULT 0,
            UNIQUE (segment, slot)
        )""",
        "CREATE INDEX states_unused ON states (id) WHERE num_references = 0",
        """CREATE TABLE chunks (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,
            page INTEGER,
            span_start INTEGER NOT NULL,
            span_end INTEGER NOT NULL,
            text NOT NULL,
            context NOT NULL,
            details TEXT NOT NULL,
            state_id INTEGER NOT NULL REFERENCES states (id),
            seal BLOB NOT NULL,
            UNIQUE (document_id, ordinal)
        )""",
        "CREATE INDEX chunks_by_state ON chunks (state_id)",
        """CREATE TABLE keys (
            chunk_id INTEGER PRIMARY KEY REFERENCES chunks (id) ON DELETE CASCADE,
            num_windows INTEGER NOT NULL,
            vectors BLOB NOT NULL,
            seal BLOB NOT NULL
        )""",
        # records that no row names any more and whose bytes may still be in their segment file
        "CREATE TABLE tombstones (segment INTEGER, slot INTEGER, PRIMARY KEY (segment, slot)) WITHOUT ROWID",
        """CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
            UPDATE states SET num_references = num_references + 1 WHERE id = new.state_id;
        END""",
        """CREATE TRIGGER chunk_deleted AFTER DELETE ON chunks BEGIN
            UPDATE states SET num_references = num_references - 1 WHERE id = old.state_id;
        END""",
        """CREATE TRIGGER state_deleted AFTER DELETE ON states BEGIN
            INSERT INTO tombstones VALUES (old.segment, old.slot);
        END""",
    ):
        connection.execute(statement)


def _m002_states_that_gave_way(connection: sqlite3.Connection) -> None:
    """A state that a budget made give way stands in segment −1, at the slot of its own id, and leaves no bytes."""
    for statement in (
        "INSERT INTO segments VALUES (-1, 0)",
        "DROP TRIGGER state_deleted",
        """CREATE TRIGGER state_deleted AFTER DELETE ON states WHEN old.segment >= 0 BEGIN
            INSERT INTO tombstones VALUES (old.segment, old.slot);
        END""",
    ):
        connection.execute(statement)


def _m003_parts_of_chunks(connection: sqlite3.Connection) -> None:
    """A part of a chunk, one of its sentences, may have a state and keys of its own."""
    for statement in (
        """CREATE TABLE parts (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            chunk_id INTEGER NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,
            start INTEGER NOT NULL,
            stop INTEGER NOT NULL,
            state_id INTEGER NOT NULL REFERENCES states (id),
            num_windows INTEGER NOT NULL,
            vectors BLOB NOT NULL,
            seal BLOB NOT NULL,
            UNIQUE (chunk_id, ordinal)
        )""",
        "CREATE INDEX parts_by_state ON parts (state_id)",
        """CREATE TRIGGER part_added AFTER INSERT ON parts BEGIN
            UPDATE states SET num_references = num_references + 1 WHERE id = new.state_id;
        END""",
        """CREATE TRIGGER part_deleted AFTER DELETE ON parts BEGIN
            UPDATE states SET num_references = num_references - 1 WHERE id = old.state_id;
        END""",
    ):
        connection.execute(statement)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _m001_first_tables,
    _m002_states_that_gave_way,
    _m003_parts_of_chunks,
)
SCHEMA_VERSION = len(MIGRATIONS)
