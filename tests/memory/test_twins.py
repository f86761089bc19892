"""Two copies of a memory that went their own ways count the same changes, and share no index file all the same."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.index import HybridIndex
from precog.memory.deposit import deposit
from precog.memory.recall import Recaller, index_source, refresh_index

BOTH = ["Max chased a squirrel through the park.", "The violin lesson moved to Thursday."]
ONE = "The harbour wall was painted yellow by Ilse."
OTHER = "Grandmother bakes plum cake for two hours."
INDEX_FILES = ("dense.index", "lexical.index")


def tell(folder: Path, backbone: TennsBackbone, *texts: str) -> None:
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(*texts)))
        refresh_index(memory.store, memory.settings.encoder_fingerprint)


def problem(folder: Path, backbone: TennsBackbone) -> str:
    with open_memory(folder, backbone) as memory:
        source = index_source(memory.store, memory.settings.encoder_fingerprint)
        return str(HybridIndex.open(memory.store.folder, source)[1])


def found(folder: Path, backbone: TennsBackbone, question: str) -> str:
    with open_memory(folder, backbone) as memory:
        return Recaller(memory.store, memory.encoder).recall(question, 1).evidence[0].deposit.info.text


@pytest.fixture
def twins(tmp_path: Path, backbone: TennsBackbone) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    tell(one, backbone, *BOTH)
    shutil.copytree(one, other)
    tell(one, backbone, ONE)
    tell(other, backbone, OTHER)
    return one, other


@pytest.mark.parametrize("is_older", [False, True], ids=["of the same generation", "older"])
def test_index_files_of_a_copy_that_went_its_own_way_are_not_used(twins, backbone, is_older: bool):
    one, other = twins
    if is_older:  # what the copy lacks would be added, and what it has otherwise would stay
        with open_memory(other, backbone) as memory, memory.store.batch() as batch:
            batch.supersede(1, 2, at=5.0)
    for name in INDEX_FILES:
        shutil.copy(one / "000001" / name, other / "000001" / name)
    assert "another state of the catalogue" in problem(other, backbone)
    assert found(other, backbone, OTHER) == OTHER
    tell(other, backbone, "The keys are in the drawer.")
    assert problem(other, backbone) == "None"
    assert found(other, backbone, OTHER) == OTHER


def test_an_older_index_of_the_same_memory_is_brought_up_to_date(twins, backbone):
    one, _ = twins
    with open_memory(one, backbone) as memory:
        deposit(memory, chunks(memory, said(OTHER)))
    assert "older than the catalogue" in problem(one, backbone)
    assert found(one, backbone, OTHER) == OTHER


def test_a_memory_without_ids_of_commits_is_read_as_ever_until_its_next_commit(twins, backbone):
    one, _ = twins
    with contextlib.closing(sqlite3.connect(one / "000001/catalogue.sqlite")) as connection:
        connection.execute("DELETE FROM meta WHERE key LIKE 'commit %'")
        connection.commit()
    with open_memory(one, backbone) as memory:
        source = index_source(memory.store, memory.settings.encoder_fingerprint)
        index, _ = HybridIndex.open(memory.store.folder, source)
        index.save(memory.store.folder, generation=source.generation, tag=source.tag)
        assert memory.store.commit_of(source.generation) == ""
    assert problem(one, backbone) == "None"
    with open_memory(one, backbone) as memory:
        before = memory.store.generation
        deposit(memory, chunks(memory, said(OTHER)))
        assert memory.store.commit_of(before) is None
        assert len(memory.store.commit_of(before + 1) or "") == 16
    assert "another state of the catalogue" in problem(one, backbone)
    assert found(one, backbone, OTHER) == OTHER


def test_so_many_commits_are_known_and_no_more(twins, backbone, monkeypatch):
    monkeypatch.setattr("precog.store.database._COMMITS_KNOWN", 3)
    with open_memory(twins[0], backbone) as memory:
        first = memory.store.generation
        for _ in range(4):
            with memory.store.batch():
                pass
        known = [memory.store.commit_of(first + step) for step in range(5)]
    assert known[:2] == [None, None]
    assert len(set(known[2:])) == 3
    assert None not in known[2:]
