"""What a memory's commands do when a part of it is damaged, or its index cannot be written."""

import sqlite3
from pathlib import Path

import pytest
from ended import Run

from precog.config import HOME
from precog.memory.chunking import chunks_of
from precog.memory.deposit import deposit
from precog.memory.opened import OpenMemory
from precog.memory.place import make_place, memory_folder
from precog.memory.utterance import Utterance
from precog.records import ModelChoice

USER = ("--user", "ana")
TEXTS = [f"The grey umbrella was left standing beside the old harbour wall on evening {n}." for n in range(13)]


@pytest.fixture
def folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The numbered folder of a memory of thirteen deposits."""
    monkeypatch.setenv(HOME, str(tmp_path))
    place = memory_folder(tmp_path, "ana")
    make_place(place)
    with OpenMemory.open(place, ModelChoice(str(model), "cpu", None), create=True) as memory:
        said = [Utterance(text, None, "Ana") for text in TEXTS]
        deposit(memory, chunks_of(said, memory.backbone.tokenizer, max_tokens=memory.settings.chunk_tokens))
        return memory.store.folder


def test_what_is_committed_is_acknowledged_though_the_index_cannot_be_written(run: Run, folder: Path) -> None:
    (folder / "dense.index").mkdir()
    ended = run("memory", "remember", "The keys are in the drawer.", *USER, "--json")
    assert ended.status == 0, ended.err
    assert "index is made anew" in ended.err
    ended = run("memory", "supersede", 3, 4, *USER, "--json")
    assert (ended.status, ended.json["by"]) == (0, 4)
    ended = run("memory", "forget", *USER, "--id", 2, "--json")
    assert (ended.status, ended.json["forgotten"]) == (0, [2])
    assert run("memory", "list", *USER, "--json").json["total"] == len(TEXTS)


def test_the_proof_names_ten_that_say_the_same_in_one_line(run: Run, folder: Path) -> None:
    ended = run("memory", "forget", *USER, "--id", 1, "--proof")
    assert ended.status == 0, ended.err
    assert "deposits 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more" in " ".join(ended.out.split())
    assert ended.out.count("not searched:") == 1


def damage(folder: Path) -> None:
    """Another letter in the text of the first deposit."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("UPDATE deposits SET text = 'U' || substr(text, 2) WHERE id = 1")
    connection.close()


def test_one_damaged_deposit_is_left_out_and_can_be_forgotten(run: Run, folder: Path) -> None:
    damage(folder)
    ended = run("memory", "list", *USER, "--json")
    assert (ended.status, ended.json["total"]) == (0, len(TEXTS) - 1)
    assert "damaged: deposits 1" in ended.err
    ended = run("memory", "recall", "Where is the umbrella?", *USER, "--json")
    assert ended.status == 0, ended.err
    assert 1 not in {entry["id"] for entry in ended.json["evidence"]}
    assert run("memory", "forget", *USER, "--id", 2, "--json").json["forgotten"] == [2]
    assert run("memory", "forget", *USER, "--id", 1, "--proof", "--json").json["forgotten"] == [1]
    ended = run("memory", "list", *USER, "--json")
    assert (ended.json["total"], ended.err) == (len(TEXTS) - 2, "")
