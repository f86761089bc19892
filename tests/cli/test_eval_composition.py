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


def test_the_table_of_rules(run: Run, model: Path, data: Path) -> None:
    ended = run(
        "eval", "composition", "--data", data, "--model", model, "--chunks", 2, "--rules", "best,concat,mix@0.5",
        "--limit", 2, "--json",
    )  # fmt: skip
    assert ended.status == 0
    report = json.loads(ended.out)
    assert report["n"] == 2
    assert report["chunks"] == 2
    assert list(report["rules"]) == ["best", "concat", "mix@0.5"]
    assert report["rules"]["mix@0.5"]["exact"]
    assert report["rules"]["concat"]["grounded_f1_gain_over_best"]["value"] == pytest.approx(
        report["rules"]["concat"]["grounded"]["f1"] - report["rules"]["best"]["grounded"]["f1"]
    )


def test_the_table_is_shown(run: Run, model: Path, data: Path) -> None:
    ended = run(
        "eval", "composition", "--data", data, "--model", model, "--rules", "in_context,mean+layer", "--limit", 1
    )
    assert ended.status == 0
    assert "Composition of 3 chunks, 1 questions" in ended.out
    assert "mean+layer" in ended.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rules", "soup"], "--compose: no such rule; given: soup"),
        (["--rules", "mean,mean"], "names a rule twice"),
        (["--chunks", "1"], "--chunks is out of range"),
        (["--codec", "fp8"], "no such state codec"),
        (["--rules", "mean@x"], "this is no temperature"),
    ],
)
def test_bad_options_are_one_line(run: Run, model: Path, data: Path, options: list[str], said: str) -> None:
    ended = run("eval", "composition", "--data", data, "--model", model, *options)
    assert ended.status == 2
    assert said in " ".join(ended.err.split())


def test_a_file_without_articles_of_enough_paragraphs(run: Run, model: Path, data: Path) -> None:
    ended = run("eval", "composition", "--data", data, "--model", model, "--chunks", "4")
    assert ended.status == 1
    assert "no article of this file has enough paragraphs" in " ".join(ended.err.split())
