"""Bytes of files that SQLite has open here: reading them drops no lock of this process, and keeps no descriptor."""

import os
import subprocess
import sys
from pathlib import Path

import corpora
import memories
import pytest

from precog.errors import StorageError
from precog.store import CorpusStore
from precog.store.catalogue import Catalogue
from precog.store.database import Database
from precog.store.database_copy import is_database
from precog.store.kind import FolderKind
from precog.store.memory import MemoryFolder, MemoryStore
from precog.store.needles import Needles
from precog.store.proof import search_folder
from precog.store.summary import summary_of

CORPUS, MEMORY = CorpusStore.FOLDER.KIND, MemoryFolder.KIND
_OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("INSERT INTO meta VALUES (?, '') ON CONFLICT DO NOTHING", (sys.argv[2],))
connection.commit()
connection.close()
"""


def written_by_another_process(catalogue: Path, key: str) -> None:
    subprocess.run([sys.executable, "-S", "-c", _OTHER, catalogue, key], check=True, timeout=60)


def descriptors(folder: Path) -> int:
    """How many files below a folder this process has open."""
    inside = {(found.st_dev, found.st_ino) for found in map(os.stat, folder.rglob("*"))}
    count = 0
    for number in map(int, os.listdir("/dev/fd")):
        try:
            found = os.fstat(number)
        except OSError:  # of the listing itself
            continue
        count += (found.st_dev, found.st_ino) in inside
    return count


def search(catalogue: Path, kind: FolderKind) -> None:
    search_folder(catalogue.parent, Needles([b"nobody has said this"]))


def summarise(catalogue: Path, kind: FolderKind) -> None:
    assert summary_of(catalogue, kind) is not None


def tell(catalogue: Path, kind: FolderKind) -> None:
    assert is_database(catalogue)


@pytest.mark.parametrize("look", [search, summarise, tell])
@pytest.mark.parametrize("kind", [CORPUS, MEMORY])
def test_a_look_at_the_bytes_leaves_the_log_to_whoever_has_it_open(tmp_path: Path, look, kind: FolderKind) -> None:
    path = tmp_path / "folder"
    room, store_type = (corpora, CorpusStore) if kind is CORPUS else (memories, MemoryStore)
    with room.create(path) as store:
        catalogue = store.folder / "catalogue.sqlite"
    with store_type.open(path), store_type.open(path, write=True) as writer:
        log = catalogue.with_name("catalogue.sqlite-wal")
        written_by_another_process(catalogue, "before")
        before = log.stat().st_ino
        look(catalogue, kind)
        written_by_another_process(catalogue, "after")  # whoever is the last to leave removes the log
        assert log.stat().st_ino == before
        assert writer._catalogue.get_meta("after") == ""
    assert descriptors(tmp_path) == 0


def test_looks_share_descriptors_and_see_what_was_written_meanwhile(tmp_path: Path) -> None:
    with memories.create(tmp_path / "memory") as store:
        catalogue = store.folder / "catalogue.sqlite"
        opened = []
        for number in range(20):
            written_by_another_process(catalogue, f"marmalade-{number}")
            found = search_folder(catalogue.parent, Needles([f"marmalade-{number}".encode()]))
            assert found.hits
            opened.append(descriptors(tmp_path))
        assert len(set(opened[1:])) == 1


def test_descriptors_are_closed_at_once_where_nothing_is_open(tmp_path: Path) -> None:
    with memories.create(tmp_path / "memory") as store:
        catalogue = store.folder / "catalogue.sqlite"
    for _ in range(3):
        search(catalogue, MEMORY)
        assert is_database(catalogue)
        assert descriptors(tmp_path) == 0
    catalogue.write_bytes(b"SQLite format 3\0 and no more")
    for write in (False, True):
        with pytest.raises(Exception, match="catalogue"):
            MemoryStore.open(tmp_path / "memory", write=write)
    search(catalogue, MEMORY)
    assert descriptors(tmp_path) == 0


def test_a_catalogue_that_cannot_be_begun_is_not_taken_for_open(tmp_path: Path, monkeypatch) -> None:
    def full(self: Database, sql: str, values: object = ()) -> None:
        raise StorageError("the disk is full")

    catalogue = tmp_path / "catalogue.sqlite"
    with monkeypatch.context() as patched:
        patched.setattr(Database, "_run", full)
        with pytest.raises(StorageError):
            Catalogue.create(catalogue)
    search(catalogue, CORPUS)
    assert descriptors(tmp_path) == 0
