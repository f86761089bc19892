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
        (
            "bytes",
            ["--budgets", "2,1", "--codec-grid", "int8", "--states", "1,2", "--rules", "best,mix@0.1"],
            [
                "fp16 all",
                "int8 all",
                "int8 top:1 ×2 best",
                "int8 top:1 ×2 mix@0.1",
                "int8 all ×2 best",
                "int8 all ×2 mix@0.1",
            ],
        ),
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
        (
            ["bytes", "--budgets", "2,1", "--codec-grid", "fp32"],
            "given: 1 KB; expected: at least 3 KB: the smallest, fp32",
        ),
        (["bytes", "--budgets", "0"], "--budgets is a list of whole numbers above 0; given: 0"),
        (["bytes", "--states", "1,x"], "--states is a list of whole numbers above 0; given: 1,x"),
        (["bytes", "--codec-grid", "fp8"], "no such state codec; given: fp8"),
        (["bytes", "--rules", "replay"], "--rules: this reads the text again; given: replay"),
        (["bytes", "--plot", "f.pdf"], "a picture is a PNG or an SVG file"),
        (
            ["bytes", "--plot", "f.png", "--states", ",".join(map(str, range(1, 26)))],
            "more than one picture can show; given: 25 numbers of states",
        ),
    ],
)
def test_bad_options_are_one_line(run: Run, model: Path, data: Path, arguments: list[str], said: str) -> None:
    ended = run("eval", *arguments, "--data", data, "--model", model)
    assert ended.status == 2
    assert said in " ".join(ended.err.split())


def test_the_best_of_each_budget_is_told_and_drawn(run: Run, model: Path, data: Path, tmp_path: Path) -> None:
    arguments = ["eval", "bytes", "--data", data, "--model", model, "--budgets", "1,2,4", "--codec-grid", "fp16,int8"]
    arguments += ["--states", "1,2", "--rules", "mix@0.1", "--plot", tmp_path / "f.png"]
    ended = run(*arguments, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["plot"] == str(tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size
    [panel] = json.loads((tmp_path / "f.json").read_text())["data"]["panels"]
    rows, budgets = ended.json["rows"], ended.json["budgets"]
    assert [line["name"] for line in panel["lines"]] == ["1 state", "2 states"]
    assert panel["lines"][0]["xs"] == [1024, 2048, 4096]
    highest = [max(values) for values in zip(*(line["ys"] for line in panel["lines"]), strict=True)]
    assert highest == [rows[told["best"]]["f1"] for told in budgets.values()]
    shown = run(*arguments)
    assert shown.status == 0, shown.err
    assert f"drawn: {tmp_path / 'f.png'}" in shown.out.replace("\n", "")
    for told in budgets.values():
        assert told["best"] in shown.out
