"""``precog memory export`` and ``import``, and ids that no memory has, on the command line."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ended import Run

from precog.config import HOME
from precog.memory import prototypes
from precog.memory.domains import read_seeds
from precog.memory.place import memory_folder

USER = ("--user", "ana")


@pytest.fixture(scope="module", autouse=True)
def _few_seeds() -> Iterator[None]:
    """Two sentences for each sub-cluster: making the keys of all takes seconds."""
    few = tuple(replace(entry, seeds=entry.seeds[:2]) for entry in read_seeds())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prototypes, "read_seeds", lambda: few)
        patch.setattr(prototypes, "_OWN", {})  # those of all sentences may have been made already
        yield


@pytest.fixture
def home(tmp_path: Path, model: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    for text in ("I live in Oslo.", "I live in Bergen now."):
        assert run("memory", "remember", text, *USER, "--model", model).status == 0
    return tmp_path / "home"


def test_what_is_exported_is_imported_and_superseding_goes_with_it(
    run: Run, home: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("memory", "supersede", 1, 2, *USER).status == 0
    assert run("memory", "export", tmp_path / "a.jsonl.gz", *USER, "--json").json["deposits"] == 2
    assert run("memory", "import", tmp_path / "a.jsonl.gz", "--user", "ben", "--model", model).status == 0
    listed = run("memory", "list", "--user", "ben", "--json").json["deposits"]
    assert [row["superseded_by"] for row in listed] == [2, None]
    forgotten = run("memory", "forget", "--id", 2, "--user", "ben", "--model", model, "--json").json
    assert (forgotten["forgotten"], forgotten["restored"]) == ([2], [1])

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl.tmp").write_text("another's")
    inside = memory_folder(home, "ana") / "a.jsonl"
    for name, status in (("-", 2), ("", 2), (".", 1), (inside, 1), ("/dev/null", 1), ("none/a", 1)):
        ended = run("memory", "export", name, *USER)
        assert ended.status == status, ended.err
        assert len(ended.err.splitlines()) == 1
        assert "bug" not in ended.err
    assert run("memory", "export", "a.jsonl", *USER).status == 0
    assert (tmp_path / "a.jsonl.tmp").read_text() == "another's"
    assert not inside.exists()

    head, first, second = (tmp_path / "a.jsonl").read_text().splitlines()
    long = json.dumps({**json.loads(second), "header": "words " * 300})
    circle = [json.dumps({**json.loads(row), "superseded_by": by}) for row, by in ((first, 2), (second, 1))]
    for lines in ([head, first, long], [head, *circle], [head, first, "[" * 200_000]):
        (tmp_path / "b.jsonl").write_text("\n".join([*lines, ""]))
        ended = run("memory", "import", "b.jsonl", "--user", "cid", "--model", model)
        assert ended.status == 1
        assert "line 3" in ended.err
        assert not os.path.lexists(memory_folder(home, "cid"))


def test_an_id_that_no_number_of_64_bits_is_is_no_deposit(run: Run, home: Path, model: Path) -> None:
    number = "99999999999999999999999"
    for words in (("show", number), ("supersede", 1, number), ("supersede", number, 1), ("forget", "--id", number)):
        more = ("--model", model) if words[0] == "forget" else ()
        ended = run("memory", *words, *USER, *more)
        assert ended.status == 1
        assert "there is no such deposit" in ended.err
