"""A glance into a catalogue that may be anybody's: what it says of itself, or nothing."""

import contextlib
import os
import sqlite3
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from precog.store.kind import FolderKind
from precog.store.open_files import connection_to, opened_beside

_TIMEOUT_SEC = 5.0
_APPLICATION = slice(68, 72)  # of the header of an SQLite file


@dataclass(frozen=True)
class CatalogueSummary:
    """What a catalogue says of itself.

    Attributes:
        num_rows: documents of any status, or deposits.
        folder_id: of the corpus or memory; "" while it has none.
        replaces: id of the one it was made to replace; "" for none.
    """

    num_rows: int
    folder_id: str
    replaces: str


def summary_of(path: Path, kind: FolderKind) -> CatalogueSummary | None:
    """Looks into a catalogue file; None when there is none, or it is damaged or of another kind."""
    if not path.is_file() or path.is_symlink():
        return None
    try:
        if not _may_be_ours(path, kind):
            return None
        uri = f"file:{urllib.parse.quote(os.fsencode(path))}?mode=rw"
        with (
            connection_to(path),
            contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_SEC)) as connection,
        ):
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not tables:  # creating it was interrupted
                return CatalogueSummary(0, "", "")
            if application != kind.application_id or not {"meta", kind.content} <= tables:
                return None
            meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN (?, 'replaces')", (kind.id_key,)))
            (count,) = connection.execute(f"SELECT count(*) FROM {kind.content}").fetchone()
    except (sqlite3.Error, ValueError, OSError):
        return None
    return CatalogueSummary(int(count), str(meta.get(kind.id_key, "")), str(meta.get("replaces", "")))


def _may_be_ours(path: Path, kind: FolderKind) -> bool:
    """Whether the file is empty or says to be a catalogue; SQLite must not so much as open anybody else's."""
    with opened_beside(path) as file:
        head = file.read(_APPLICATION.stop)
    return not head or head[_APPLICATION] == kind.application_id.to_bytes(4, "big")
