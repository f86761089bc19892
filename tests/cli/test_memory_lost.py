"""What the commands say of a memory that has lost rows, is linked, or was interrupted while it forgot."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from ended import Run
from test_memory_damage import USER, folder

from precog.errors import StorageError
from precog.store.database import Database

__all__ = ["folder"]


def change(folder: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_lost_deposit_is_told_by_whatever_looks_and_forgotten_with_all(run: Run, folder: Path) -> None:
    change(folder, "DELETE FROM deposits WHERE id = 3")
    for words in (("list",), ("stats",), ("recall", "the grey umbrella")):
        ended = run("memory", *words, *USER)
        assert ended.status == 0
        assert "note: left out, because damaged: deposit 3; forget it" in " ".join(ended.err.split())
        assert run("memory", *words, *USER, "--json").json["damaged"] == [3]
    ended = run("memory", "forget", "--all", "--proof", *USER, "--json")
    assert (ended.status, ended.json["hits"], ended.json["forgotten"]) == (0, 0, list(range(1, 14)))
    assert run("memory", "stats", *USER, "--json").json["num_states"] == 0
    assert run("memory", "stats", *USER, "--json").json["notes"] == []


def test_prototypes_that_are_gone_are_a_note_of_list_and_stats(run: Run, folder: Path) -> None:
    change(folder, "DELETE FROM prototypes")
    for words in (("list",), ("stats",), ("recall", "the grey umbrella")):
        assert "note: the prototypes are gone" in " ".join(run("memory", *words, *USER).err.split())
    ended = run("memory", "remember", "The keys are in the drawer.", *USER)
    assert ended.status == 1
    assert "fit --seeds" in ended.err
    assert run("memory", "fit", "--seeds", *USER).status == 0
    assert run("memory", "remember", "The keys are in the drawer.", *USER).status == 0


def test_a_linked_folder_is_read_and_not_written_or_proved(run: Run, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    for words in (("remember", "The keys are in the drawer."), ("forget", "--id", 1, "--proof")):
        ended = run("memory", *words, *USER)
        assert ended.status == 1
        [line] = ended.err.splitlines()
        assert f"given: {folder} → " in line
    assert run("memory", "list", *USER, "--json").json["total"] == 13


def test_the_command_that_an_interrupted_forget_names_finishes_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Database) -> bool:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "scrub", full)
        ended = run("memory", "forget", "--id", 2, *USER)
        assert ended.status == 1
        assert "forgotten, but not yet overwritten: the disk is full" in ended.err
        assert "precog memory forget --id 2 --proof" in ended.err
    assert "not known to be overwritten: deposit 2" in " ".join(run("memory", "list", *USER).err.split())
    ended = run("memory", "forget", "--id", 2, "--proof", *USER, "--json")
    assert (ended.status, ended.json["forgotten"], ended.json["hits"]) == (0, [2], 0)
    assert run("memory", "list", *USER).err == ""
    assert run("memory", "forget", "--id", 2, "--proof", *USER).status == 1
