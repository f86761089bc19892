"""``precog memory fit`` on the command line."""

from pathlib import Path

import pytest
from ended import Run

TEXTS = [
    *(f"The rope of mast {n} is torn and the sail of the boat needs thread." for n in range(7)),
    *(f"I felt sad and lonely on evening {n}, and cried a little." for n in range(7)),
]


@pytest.fixture
def user(run: Run, model: Path, tmp_path: Path) -> str:
    talk = tmp_path / "talk.jsonl"
    talk.write_text("".join(f'{{"text": "{text}", "speaker": "Ana"}}\n' for text in TEXTS))
    assert run("memory", "remember", "--file", talk, "--user", tmp_path.name, "--model", model).status == 0
    return tmp_path.name


def test_fit_then_list_then_forget(run: Run, user: str) -> None:
    ended = run("memory", "fit", "--user", user, "--per-domain", 1, "--json")
    assert ended.status == 0, ended.err
    report = ended.json
    fitted = [entry for entry in report["subclusters"] if entry["deposits"]]
    assert report["fitted"] >= 1
    assert sum(entry["deposits"] for entry in fitted) + sum(report["others"].values()) == len(TEXTS)
    listed = run("memory", "list", "--user", user, "--json").json["deposits"]
    assert {entry["subcluster"] for entry in listed} <= {*(entry["name"] for entry in fitted), "others"}
    ended = run("memory", "forget", "--user", user, "--id", 2, "--proof", "--json")
    assert (ended.status, ended.json["hits"]) == (0, 0)
    assert "prototypes" in ended.json["dropped"]
    assert "fitted" in run("memory", "fit", "--user", user).out


def test_fit_to_a_transcript(run: Run, user: str, tmp_path: Path) -> None:
    talk = tmp_path / "other.txt"
    talk.write_text("".join(f"Ben: My brother bought car {n} from a friend of his.\n" for n in range(9)))
    ended = run("memory", "fit", talk, "--user", user, "--per-domain", 1, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["fitted"] >= 1
    assert run("memory", "stats", "--user", user, "--json").json["num_deposits"] == len(TEXTS)


def test_what_cannot_be_fitted_is_one_line(run: Run, user: str) -> None:
    for words, line in (
        (["--method", "guess"], "there is no such way to fit; given: guess; expected: kmeans or hdbscan"),
        (["--per-domain", "0"], "per_domain is out of its range"),
        (["--method", "hdbscan", "--per-domain", "3"], "HDBSCAN finds the number of groups itself"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["--user", "nobody"], "there is no memory of this user"),
    ):
        ended = run("memory", "fit", "--user", user, *words)
        assert ended.status != 0
        [told] = ended.err.splitlines()
        assert line in told
