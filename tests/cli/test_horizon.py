"""``precog horizon``: its JSON, its picture, and one line for what cannot be measured."""

from pathlib import Path

import pytest
from ended import Run
from PIL import Image

QUICK = ("--samples", 2, "--distance", 64)
QUANTILES = {"q10", "q50", "q90"}


def test_the_shape_of_the_report(model: Path, tmp_path: Path, run: Run) -> None:
    picture = tmp_path / "h.png"
    ended = run("horizon", "--model", model, *QUICK, "--seed", 3, "--plot", picture, "--json")
    assert (ended.status, ended.err) == (0, "")
    found = ended.json
    assert set(found) >= {
        "model", "layers", "influence", "horizon_tokens", "proposed_chunk_tokens", "rule", "seed", "samples",
        "beyond_text", "plot",
    }  # fmt: skip
    assert [row["layer"] for row in found["layers"]] == [1, 2, 3]
    for row in found["layers"]:
        assert set(row) == {"layer", *QUANTILES, "to_one_percent"}
        assert 0 < row["q10"] <= row["q50"] <= row["q90"]
        assert set(row["to_one_percent"]) == QUANTILES
    assert [row["distance"] for row in found["influence"]] == [1, 2, 4, 8, 16, 32, 64]
    for row in found["influence"]:
        assert set(row) == {"distance", *QUANTILES, "recall"}
        assert row["q10"] <= row["q50"] <= row["q90"]
        assert 0 <= row["recall"] <= 1
    assert set(found["horizon_tokens"]) == {"gates", "influence"}
    assert (found["model"], found["proposed_chunk_tokens"], found["seed"], found["samples"]) == ("tiny", 64, 3, 2)
    assert found["plot"] == str(picture)
    with Image.open(picture) as image:
        image.load()
        assert image.size == (1100, 480)
    again = run("horizon", "--model", model, *QUICK, "--seed", 3, "--json").json
    assert {**again, "plot": found["plot"]} == found


def test_people_read_the_proposal_and_its_rule(model: Path, docs: Path, run: Run) -> None:
    for name in ("mill.txt", "lighthouse.md"):
        (docs / name).write_text((docs / name).read_text() * 3)
    told = run("horizon", "--model", model, *QUICK, "--text", docs / "mill.txt", "--text", docs / "lighthouse.md").out
    for part in ("exact for layer 1", "proposed chunk length: 64 tokens", "the longest of 64, 96"):
        assert part in told


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--text", "nowhere"], 1, "nowhere"),
        (["--text", "short.txt"], 1, "too short to measure a memory on; given: 3 tokens; expected: at least 64"),
        (["--text", "empty.txt"], 1, "the file is empty"),
        (["--text", "folder"], 1, "there is nothing to read"),
        (["--samples", 0], 2, "--samples is out of range"),
        (["--distance", 63], 2, "--distance is out of range; given: 63; expected: 64 to"),
        (["--trained-tokens", 1], 2, "--trained-tokens is out of range"),
        (["--plot", "h.jpg"], 2, "a name ending in .png or .svg"),
        (["--plot", "nowhere/h.png"], 1, "there is no such folder"),
        (["--seed", -1], 2, "--seed"),
        (["--model", "nowhere"], 1, "no such model"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    options: list[object],
    status: int,
    message: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("Two words.")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "folder").mkdir()
    given = [] if "--model" in options else ["--model", model]
    ended = run("horizon", *given, *QUICK, *options)
    assert ended.status == status
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "folder", "short.txt"]
