"""``precog eval clusters``: one JSON object, a table, a map; one clear line where it cannot work."""

import json
from pathlib import Path

import pytest

from precog.cli.main import main

MISSIONS = {
    "a1": "the price of the car and the rent went up by",
    "a2": "turn left behind the bridge at the river and go",
    "a3": "my sister called and asked for the pressure of tank",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    lines = [
        json.dumps({"mission": name, "speaker": "CC", "text": f"{text} {number} {list(MISSIONS.values())[number % 3]}"})
        for name, text in MISSIONS.items()
        for number in range(12)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["eval", "clusters", *map(str, arguments)])
    told = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, told.out, told.err


def test_json_is_one_object_and_the_map_is_drawn(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "map.svg"
    status, out, _ = run(capsys, "--data", data, "--held-out", "a2", "--subclusters", "2", "--plot", plot, "--json")
    assert status == 0
    report = json.loads(out.splitlines()[-1])
    assert report["held_out"] == "a2"
    assert report["n"] == 12
    assert report["built_from"] == {"a1": 12, "a3": 12}
    assert set(report["domains"]) == {"emotional", "temporal", "social", "spatial", "factual"}
    assert sum(domain["n"] for domain in report["domains"].values()) == 12
    for domain in report["domains"].values():
        keys = {"n", "built_from", "ratio", "cosine_ratio", "random_ratio", "others", "subclusters", "emergent"}
        assert set(domain) == keys
    assert report["plot"]["file"] == str(plot)
    assert set(report["plot"]["ratios"]) == set(report["domains"])
    for name, ratio in report["plot"]["ratios"].items():
        assert (ratio is None) == (report["domains"][name]["ratio"] is None)
    assert "<svg" in plot.read_text(encoding="utf-8")


def test_the_table_names_the_last_recording_where_none_is_given(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--data", data, "--per-mission", "6", "--limit", "4")
    assert status == 0
    assert "a3, 4 utterances" in out
    assert "spatial" in out


def test_what_cannot_work_is_one_line(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status, told in (
        (["--data", data, "--held-out", "zz"], 1, "given: zz"),
        (["--data", tmp_path / "none.jsonl"], 1, "cannot be read"),
        (["--data", data, "--threshold", "2"], 2, "threshold"),
        (["--data", data, "--temperature", "0"], 2, "temperature"),
        (["--data", data, "--plot", tmp_path / "map.gif"], 2, ".png or .svg"),
    ):
        ended, _, err = run(capsys, *arguments)
        assert ended == status, told
        assert told in err
        assert len(err.strip().splitlines()) == 1
