"""A glance into a catalogue that may be anybody's: what it says of itself, or nothing."""

import contextlib
import os
import sqlite3
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from precog.store.migrations import APPLICATION_ID

_TIMEOUT_SEC = 5.0
_APPLICATION = slice(68, 72)  # of the header of an SQLite file


@dataclass(frozen=True)
class CatalogueSummary:
    """What a catalogue says of itself.

    Attributes:
        num_documents: of any status.
        corpus_id: of the corpus; "" while it has none.
        replaces: id of the corpus it was made to replace; "" for none.
    """

    num_documents: int
    corpus_id: str
    replaces: str


def summary_of(path: Path) -> CatalogueSummary | None:
    """Looks into a catalogue file; None when there is none, or it is damaged or not ours."""
    if not path.is_file() or path.is_symlink():
        return None
    try:
        if not _may_be_ours(path):
            return None
        uri = f"file:{urllib.parse.quote(os.fsencode(path))}?mode=rw"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_SEC)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if not tables:  # creating it was interrupted
                return CatalogueSummary(0, "", "")
            if application != APPLICATION_ID or not {"meta", "documents"} <= tables:
                return None
            meta = dict(connection.execute("SELECT key, value FROM meta WHERE key IN ('corpus_id', 'replaces')"))
            (count,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    except (sqlite3.Error, ValueError, OSError):
        return None
    return CatalogueSummary(int(count), str(meta.get("corpus_id", "")), str(meta.get("replaces", "")))


def _may_be_ours(path: Path) -> bool:
    """Whether the file is empty or says to be a catalogue; SQLite must not so much as open anybody else's."""
    with path.open("rb") as file:
        head = file.read(_APPLICATION.stop)
    return not head or head[_APPLICATION] == APPLICATION_ID.to_bytes(4, "big")
