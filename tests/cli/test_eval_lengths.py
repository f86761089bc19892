import json
from pathlib import Path

import pytest
from ended import Run

FACT = "Ada Quill built the lighthouse of Marrow in 1843."
NQ = [
    {
        "id": str(number),
        "title": "Marrow",
        "context": FACT,
        "context_detok": FACT,
        "question": "who built it",
        "answers": ["Ada Quill"],
    }
    for number in range(3)
]
SQUAD = [
    {"id": str(number), "title": "t", "context": f"{number}. {FACT}", "question": "Who?", "answers": ["Ada Quill"]}
    for number in range(12)
]


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_natural_questions_by_length(run: Run, model: Path, tmp_path: Path) -> None:
    data = _write(tmp_path / "nq.jsonl", NQ)
    ended = run("eval", "nq", "--data", data, "--model", model, "--per-bin", 2, "--codec", "fp32", "--json")
    assert ended.status == 0, ended.err
    assert ended.json["n"] == 2
    assert ended.json["bins"]["<100"]["share"] == 1.0
    assert ended.json["bins"]["<100"]["measured"]["agreement"] == 1.0
    shown = run("eval", "nq", "--data", data, "--model", model, "--limit", 1)
    assert shown.status == 0
    assert "Natural Questions by tokens of the passage, 1 question" in " ".join(shown.out.split())


def test_long_documents(run: Run, model: Path, tmp_path: Path) -> None:
    data = _write(tmp_path / "squad.jsonl", SQUAD)
    arguments = ["eval", "long", "--data", data, "--model", model, "--per-bin", 2]
    ended = run(*arguments, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["bins"]["<100"]["n"] == ended.json["bins"]["[100,300)"]["n"] == 2
    assert ended.json["bins"][">=2400"] is None
    shown = run(*arguments)
    assert shown.status == 0
    assert "Documents of SQuAD paragraphs, 4 questions" in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nq", "--limit", 1, "--per-bin", 1], 2, "--limit and --per-bin are two ways to choose questions"),
        (["nq", "--chunk-tokens", 4], 2, "--chunk-tokens is too small; given: 4"),
        (["long", "--per-bin", 0], 2, "--per-bin and --per-document are out of range"),
        (["long", "--most-tokens", 900], 2, "--most-tokens is out of range; given: 900; expected: more than 2400"),
    ],
)
def test_bad_options_are_one_line(
    run: Run, model: Path, tmp_path: Path, arguments: list[object], status: int, said: str
) -> None:
    ended = run("eval", *arguments, "--data", _write(tmp_path / "nq.jsonl", NQ[:1]), "--model", model)
    assert ended.status == status
    assert said in " ".join(ended.err.split())


def test_a_wrong_file_is_told_by_line_and_field(run: Run, model: Path, tmp_path: Path) -> None:
    data = _write(tmp_path / "nq.jsonl", [NQ[0], {**NQ[1], "answers": "Ada"}])
    ended = run("eval", "nq", "--data", data, "--model", model, "--json")
    assert ended.status == 1
    assert "line 2, field answers" in json.loads(ended.out)["error"]["message"]
