"""``precog memory fit``, ``emergent`` and ``map`` on the command line; what they do is tested in tests/memory."""

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ended import Run

from precog.config import HOME
from precog.memory import prototypes, refit
from precog.memory.chunking import chunks_of
from precog.memory.deposit import deposit
from precog.memory.domains import read_seeds
from precog.memory.opened import OpenMemory
from precog.memory.place import existing_folder, make_place, memory_folder
from precog.memory.utterance import Utterance
from precog.records import ModelChoice

TORQUING = [f"Roger, verb {n} noun, gyro torquing angles plus." for n in range(30)]
SAD = [f"I felt sad and lonely on evening {n}, and cried a little." for n in range(7)]
USER = ("--user", "ana")


@pytest.fixture(scope="module", autouse=True)
def _few_seeds() -> Iterator[None]:
    """Two sentences for each sub-cluster: making the keys of all takes seconds."""
    few = tuple(replace(entry, seeds=entry.seeds[:2]) for entry in read_seeds())
    with pytest.MonkeyPatch.context() as patch:
        for module in (prototypes, refit):
            patch.setattr(module, "read_seeds", lambda: few)
        patch.setattr(prototypes, "_OWN", {})  # those of all sentences may have been made already
        yield


@pytest.fixture(scope="module")
def filled(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the memory of one user, and one of another that holds nothing."""
    home = tmp_path_factory.mktemp("filled")
    said = [Utterance(text, None, "Ana") for text in (*TORQUING, *SAD)]
    choice = ModelChoice(str(model), "cpu", None)
    make_place(memory_folder(home, "ana"))
    with OpenMemory.open(memory_folder(home, "ana"), choice, create=True) as memory:
        deposit(memory, chunks_of(said, memory.backbone.tokenizer, max_tokens=memory.settings.chunk_tokens))
    with OpenMemory.open(memory_folder(home, "nil"), choice, create=True):
        pass
    return home


@pytest.fixture
def home(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in use."""
    monkeypatch.setenv(HOME, str(shutil.copytree(filled, tmp_path / "home")))
    return tmp_path / "home"


def test_fit_then_list(run: Run, home: Path) -> None:
    ended = run("memory", "fit", *USER, "--per-domain", 1, "--json")
    assert ended.status == 0, ended.err
    report = ended.json
    fitted = [entry for entry in report["subclusters"] if entry["deposits"]]
    assert report["fitted"] >= 1
    assert sum(entry["deposits"] for entry in fitted) + sum(report["others"].values()) == len(TORQUING) + len(SAD)
    listed = run("memory", "list", *USER, "--json").json["deposits"]
    assert {entry["subcluster"] for entry in listed} <= {*(entry["name"] for entry in fitted), "others"}


def test_fit_to_a_transcript_mends_prototypes_that_are_damaged(run: Run, home: Path, tmp_path: Path) -> None:
    [catalogue] = existing_folder(home, "ana").rglob("catalogue.sqlite")
    with sqlite3.connect(catalogue) as connection:
        connection.execute("UPDATE prototypes SET text = '{}'")
    connection.close()
    ended = run("memory", "emergent", *USER)
    assert (ended.status, ended.err.count("\n")) == (1, 1)
    assert "precog memory fit --seeds --user USER" in ended.err
    talk = tmp_path / "other.txt"
    talk.write_text("".join(f"Ben: My brother bought car {n} from a friend of his.\n" for n in range(9)))
    ended = run("memory", "fit", talk, *USER, "--per-domain", 1)
    assert ended.status == 0, ended.err
    assert ended.out.startswith("fitted 1 sub-cluster;")
    assert run("memory", "stats", *USER, "--json").json["num_deposits"] == len(TORQUING) + len(SAD)
    assert run("memory", "emergent", *USER).status == 0


def test_map_emergent_promote_and_forget(run: Run, home: Path, tmp_path: Path) -> None:
    [group] = run("memory", "emergent", *USER, "--json").json["emergent"]
    assert len(group["members"]) >= 20
    name = f"{group['domain']} ▸ {group['name']}"
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        picture = tmp_path / f"map{suffix}"
        ended = run("memory", "map", *USER, "--out", picture, "--json")
        assert ended.status == 0, ended.err
        assert picture.read_bytes().startswith(start)
        assert sum(ended.json["deposits"].values()) == len(TORQUING) + len(SAD)
        assert ended.json["emergent"] == [name]
    assert f"emerging: {group['name']}" in picture.read_text(encoding="utf-8")
    ended = run("memory", "emergent", *USER, "--promote", group["name"], "--json")
    assert (ended.status, ended.json["promoted"]) == (0, group)
    listed = run("memory", "list", *USER, "--json").json["deposits"]
    assert sum(entry["subcluster"] == group["name"] for entry in listed) == ended.json["deposits"] >= 20
    gone = [word for member in group["members"][:15] for word in ("--id", member)]
    ended = run("memory", "forget", *USER, *gone, "--proof", "--json")
    assert (ended.status, ended.json["hits"]) == (0, 0)
    assert {"prototypes", f"a promoted group of {group['domain']}"} <= set(ended.json["dropped"])
    assert run("memory", "emergent", *USER, "--least", 40).out == "no group of 40 deposits or more emerges\n"


def test_what_cannot_be_is_one_line_and_changes_nothing(run: Run, home: Path, tmp_path: Path) -> None:
    target, folder = tmp_path / "none.png", tmp_path / "folder.png"
    folder.mkdir()
    before = {path: path.read_bytes() for path in home.rglob("*.sqlite")}
    for words, line in (
        (["fit", *USER, "--method", "guess"], "there is no such way to fit; given: guess; expected: kmeans or hdbscan"),
        (["fit", *USER, "--per-domain", "0"], "Invalid value for '--per-domain'"),
        (["fit", *USER, "--method", "hdbscan", "--per-domain", "3"], "HDBSCAN finds the number of groups itself"),
        (["fit", *USER, "--per-domain", "38"], "J = 38; expected: --per-domain 1 to "),
        (["fit", *USER, "nowhere.jsonl"], "nowhere.jsonl"),
        (["fit", "--user", "nobody"], "there is no memory of this user"),
        (["fit", "--user", "nil"], "given: 0 deposits; expected: at least 1; remember something first"),
        (["map", *USER, "--out", tmp_path / "map.gif"], "a picture is a PNG or an SVG file"),
        (["map", *USER, "--out", tmp_path / "nowhere" / "map.png"], "there is no such folder"),
        (["map", *USER, "--out", folder, "--method", "pca"], "the picture cannot be written"),
        (["map", *USER, "--out", target, "--domain", "weather"], "there is no such domain; given: weather"),
        (["map", *USER, "--out", target, "--method", "guess"], "there is no such projection"),
        (["map", "--user", "nobody", "--out", target], "there is no memory of this user"),
        (["map", "--user", "nil", "--out", target], "nothing to draw; given: 0 deposits; expected: at least 1; "),
        (["emergent", *USER, "--promote", "nothing"], "no group of that name emerges; given: nothing"),
        (["emergent", *USER, "--domain", "weather"], "there is no such domain; given: weather"),
    ):
        ended = run("memory", *words)
        assert ended.status in (1, 2), words
        [told] = ended.err.splitlines()
        assert line in told
    assert {path.name for path in tmp_path.iterdir()} == {"home", "folder.png"}
    assert {path: path.read_bytes() for path in home.rglob("*.sqlite")} == before


@pytest.mark.parametrize("option", ["--query", "--speaker", "--before", "--after"])
def test_forgetting_by_an_empty_condition_is_a_usage_error(run: Run, home: Path, option: str) -> None:
    for rest in ((), ("--all",)):
        ended = run("memory", "forget", *USER, *rest, option, "")
        assert (ended.status, ended.err.count("\n")) == (2, 1)
        assert option in ended.err
