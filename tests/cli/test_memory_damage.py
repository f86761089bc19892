"""What a memory's commands do when a part of it is damaged, or its index cannot be written."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from ended import Run

from precog.config import HOME
from precog.errors import StorageError
from precog.memory.chunking import chunks_of
from precog.memory.deposit import deposit
from precog.memory.opened import OpenMemory
from precog.memory.place import make_place, memory_folder
from precog.memory.utterance import Utterance
from precog.records import ModelChoice
from precog.store.database import Database

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
    assert "index is made anew" in ended.err
    ended = run("memory", "recall", "Where are the keys?", "--top-k", 14, *USER, "--json")
    assert {entry["id"] for entry in ended.json["evidence"]} == {1, *range(4, 15)}
    (folder / "dense.index").rmdir()  # what was in the way is gone: the next command that writes makes the index
    assert run("memory", "supersede", 5, 6, *USER).err == ""
    assert (folder / "dense.index").is_file()


def test_the_proof_names_ten_that_say_the_same_in_one_line(run: Run, folder: Path) -> None:
    ended = run("memory", "forget", *USER, "--id", 1, "--proof")
    assert ended.status == 0, ended.err
    assert "deposits 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more" in " ".join(ended.out.split())
    assert ended.out.count("not searched:") == 1


def damage(folder: Path) -> None:
    """One flipped bit in the text of the first deposit, which is no UTF-8 any more."""
    file = folder / "catalogue.sqlite"
    data, text = bytearray(file.read_bytes()), TEXTS[0].encode()
    data[data.index(text)] ^= 0x80
    file.write_bytes(data)


def test_one_damaged_deposit_is_left_out_and_can_be_forgotten(run: Run, folder: Path, tmp_path: Path) -> None:
    damage(folder)
    ended = run("memory", "list", *USER, "--json")
    assert (ended.status, ended.json["total"], ended.json["damaged"]) == (0, len(TEXTS) - 1, [1])
    assert ended.err.count("\n") == 1
    assert "left out, because damaged: deposit 1; forget it (`precog memory forget" in ended.err
    ended = run("memory", "recall", "Where is the umbrella?", *USER, "--json")
    assert (ended.status, ended.json["damaged"]) == (0, [1])
    assert 1 not in {entry["id"] for entry in ended.json["evidence"]}
    ended = run("memory", "show", *USER, 1, "--json")
    assert (ended.status, ended.json["error"]["code"]) == (1, "corpus.damaged")
    assert run("memory", "show", *USER, 2).status == 0
    ended = run("memory", "export", tmp_path / "a.jsonl", *USER, "--json")
    assert (ended.status, ended.json["deposits"], ended.json["damaged"]) == (0, len(TEXTS) - 1, [1])
    ended = run("memory", "remember", TEXTS[0], *USER, "--speaker", "Ana", "--json")
    assert ended.status == 0, ended.err  # said at another time
    assert run("memory", "forget", *USER, "--id", 2, "--json").json["forgotten"] == [2]
    ended = run("memory", "forget", *USER, "--id", 1, "--proof", "--json")
    assert (ended.status, ended.json["forgotten"], ended.json["hits"]) == (0, [1], 0)
    ended = run("memory", "list", *USER, "--json")
    assert (ended.json["total"], ended.json["damaged"], ended.err) == (len(TEXTS) - 1, [], "")
    assert run("memory", "stats", *USER).status == 0


def test_a_memory_is_read_again_without_a_damaged_deposit(run: Run, folder: Path) -> None:
    damage(folder)
    ended = run("memory", "reindex", *USER, "--json")
    assert (ended.status, ended.json["deposits"], ended.json["damaged"]) == (0, len(TEXTS) - 1, [1])
    assert "not taken over" in ended.err
    ended = run("memory", "list", *USER, "--json")
    assert (ended.json["total"], ended.json["damaged"]) == (len(TEXTS) - 1, [])


def test_damaged_prototypes_are_mended_by_the_command_that_the_error_names(run: Run, folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection:
        connection.execute("UPDATE prototypes SET text = text || ' '")
        connection.commit()
    ended = run("memory", "remember", "The keys are in the drawer.", *USER)
    assert ended.status == 1
    assert "`precog memory fit --seeds --user USER`" in ended.err
    ended = run("memory", "fit", "--seeds", *USER, "--json")
    assert (ended.status, ended.json["fitted"]) == (0, 0), ended.err
    assert run("memory", "remember", "The keys are in the drawer.", *USER).status == 0
    assert run("memory", "fit", "--seeds", "--per-domain", 2, *USER).status == 2


def test_a_segment_that_is_gone_stops_neither_proof_nor_recall(run: Run, folder: Path) -> None:
    (folder / "segments/000000.seg").unlink()
    assert run("memory", "recall", "Where is the umbrella?", *USER).status == 0
    ended = run("memory", "forget", *USER, "--id", 1, "--proof", "--json")
    assert (ended.status, ended.json["forgotten"], ended.json["hits"]) == (0, [1], 0)
    assert "segment 000000 is missing" in ended.err
    assert "`precog memory reindex --user USER`" in ended.err
    assert run("memory", "reindex", *USER).status == 0
    ended = run("memory", "forget", *USER, "--id", 2, "--proof")
    assert (ended.status, ended.err) == (0, "")


def test_what_is_not_committed_is_an_error(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Database, "commit", refuse)
    for command in (
        ("remember", "The keys are in the drawer."),
        ("supersede", 3, 4),
        ("forget", "--id", 2),
        ("fit", "--seeds"),
    ):
        assert run("memory", *command, *USER).status == 1
    monkeypatch.undo()
    monkeypatch.setenv(HOME, str(folder.parents[2]))
    ended = run("memory", "list", *USER, "--json")
    assert [(entry["id"], entry["superseded_by"]) for entry in ended.json["deposits"]] == [
        (number, None) for number in range(1, len(TEXTS) + 1)
    ]
