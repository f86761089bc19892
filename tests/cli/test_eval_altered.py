import json
from pathlib import Path

import pytest
from ended import Run

ROWS = [
    {"id": "a", "title": "t", "context": "Ada Quill built the lighthouse.", "question": "Who built it?"},
    {"id": "b", "title": "t", "context": "Tom Reed made the wheel of oak.", "question": "Who made the wheel?"},
    {"id": "c", "title": "t", "context": "The river Ouse turns the mill.", "question": "What turns the mill?"},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = [json.dumps({**row, "answers": [row["context"].rsplit(" ", 1)[0]]}) for row in ROWS]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    return tmp_path / "q.jsonl"


@pytest.mark.parametrize(
    ("command", "options", "rows"),
    [
        ("depth", ["--layers", "bottom:1", "--layers", "none"], ["all", "bottom:1", "none"]),
        ("temperature", ["--temperatures", "1,0.1", "--top-k", 2], ["top1", "1", "0.1"]),
        ("pareto", ["--codecs", "fp16,int8", "--layers", "none"], ["fp16 all", "fp16 none", "int8 all", "int8 none"]),
    ],
)
def test_rows_in_json_and_in_a_table(
    run: Run, model: Path, data: Path, command: str, options: list[object], rows: list[str]
) -> None:
    arguments = ["eval", command, "--data", data, "--model", model, "--limit", 2, *options]
    ended = run(*arguments, "--json")
    assert ended.status == 0, ended.err
    assert list(ended.json["rows"]) == rows
    assert ended.json["n"] == 2
    for row in ended.json["rows"].values():
        assert row["f1_interval"][0] <= row["f1"] <= row["f1_interval"][1]
    shown = run(*arguments)
    assert shown.status == 0
    assert "2 questions" in shown.out
    assert all(name in shown.out for name in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["depth", "--layers", "bottom:99"], "--layers: no such number of layers; given: bottom:99"),
        (["depth", "--codec", "fp8"], "no such state codec"),
        (["temperature", "--temperatures", "x"], "--temperatures is a list of numbers; given: x"),
        (["temperature", "--temperatures", "-1"], "given: -1"),
        (["pareto", "--codecs", ","], "--codecs names one twice, or none"),
    ],
)
def test_bad_options_are_one_line(run: Run, model: Path, data: Path, arguments: list[str], said: str) -> None:
    ended = run("eval", *arguments, "--data", data, "--model", model)
    assert ended.status == 2
    assert said in " ".join(ended.err.split())
