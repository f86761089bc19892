"""A copy of a SQLite file as it is at one moment, made while others write."""

import sqlite3
import urllib.parse
from os import close, fsencode
from pathlib import Path

from precog.store.failure import guarded
from precog.store.open_files import LOGS, connection_to, opened_beside
from precog.writing import open_new

_MAGIC = b"SQLite format 3\0"
_BUSY_TIMEOUT_SEC = 30.0


def is_database(path: Path) -> bool:
    """Whether a file is of SQLite's."""
    with guarded(path), opened_beside(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def is_log_of_database(path: Path) -> bool:
    """Whether a file is what SQLite keeps beside one of its own while it is open."""
    base = next((path.name.removesuffix(end) for end in LOGS if path.name.endswith(end)), None)
    return base is not None and (path.with_name(base)).is_file()


def copy_connection(connection: sqlite3.Connection, target: Path) -> None:
    """Writes what is committed now into a new file of mode 0600, without the bytes of anything that was deleted.

    Raises:
        StorageError: the disk refuses.
        DamagedCorpusError: the database is damaged.
    """
    with guarded(target):
        close(open_new(target))
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            copy.execute("PRAGMA synchronous = OFF")  # whoever wants it on the disk syncs the whole file
            connection.backup(copy)  # all pages in one step: one moment, and no writer waits
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            copy.execute("VACUUM")
        finally:
            copy.close()


def copy_database(source: Path, target: Path) -> None:
    """The same for a file that nobody has opened here.

    Raises:
        StorageError: the disk refuses.
        DamagedCorpusError: the database is damaged.
    """
    with guarded(source), connection_to(source):
        uri = f"file:{urllib.parse.quote(fsencode(source))}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_TIMEOUT_SEC)
        try:
            copy_connection(connection, target)
        finally:
            connection.close()
