"""``precog eval locomo``: one JSON object, a table, answers; one clear line where it cannot work."""

import json
from pathlib import Path

import pytest
from ended import Run

TURNS = ["I adopted a grey cat named Pepper.", "My sister moved to Oslo.", "The rent went up by ninety euros."]
QUESTIONS = [
    {"question": "What is the cat's name?", "answer": "Pepper", "evidence": ["D1:1"], "category": 4},
    {"question": "Where did the sister move?", "answer": "Oslo", "evidence": ["D1:2", "D7:1"], "category": 1},
    {"question": "What of the moon?", "adversarial_answer": "cheese", "evidence": [], "category": 5},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    turns = [{"speaker": "Ana", "dia_id": f"D1:{number}", "text": text} for number, text in enumerate(TURNS, 1)]
    sessions = {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": sessions, "qa": QUESTIONS}]))
    return path


def test_retrieval_is_one_object(run: Run, data: Path) -> None:
    report = run("eval", "locomo", "--data", data, "--probes", "1,2", "--json").json
    counts = {"n": 2, "questions": 3, "without_evidence": 1, "lost_evidence": 1, "turns": 3, "conversations": 1}
    assert {name: report[name] for name in counts} == counts
    assert len(report["rows"]) == 4 + 2 * 3 * 2 * 3
    for row in report["rows"]:
        assert set(row["recall"]) == {"1", "5", "10"}
        assert 0 < row["fraction_searched"] <= 1
    assert report["rows"][0]["name"] == "flat hybrid"
    assert report["rows"][0]["recall"]["5"] == 75
    assert report["answers"] is report["storage"] is report["model"] is None


def test_answers_and_tables(run: Run, data: Path, model: Path, tmp_path: Path) -> None:
    samples = tmp_path / "said.jsonl"
    ended = run(
        "eval", "locomo", "--data", data, "--model", model, "--probes", "1", "--prototypes", "seeds",
        "--keys", "memory,speaker", "--answers", 5, "--samples", samples,
    )  # fmt: skip
    assert ended.status == 0
    assert "2 questions with evidence, 3 turns" in ended.out
    assert "Answers to 2 questions" in ended.out
    assert "K = all" in ended.out
    said = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in said] == ["conv-1/0", "conv-1/1"]
    assert set(said[0]["said"]) == {"inject_grounded", "in_context_grounded", "inject_free", "in_context_free"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--probes", "x"], "--probes"),
        (["--probes", "4,2"], "rising"),
        (["--keys", "smell"], "--keys: no such choice"),
        (["--prototypes", "dreams"], "--prototypes: no such choice"),
        (["--codec", "fp8"], "no such state codec"),
        (["--samples", "said.jsonl"], "expected: --answers N"),
    ],
)
def test_bad_options_are_one_line(run: Run, data: Path, options: list[str], said: str) -> None:
    ended = run("eval", "locomo", "--data", data, *options)
    assert ended.status == 2
    assert said in " ".join(ended.err.split())


def test_no_folder_for_answers_is_told_first(run: Run, data: Path, tmp_path: Path) -> None:
    ended = run("eval", "locomo", "--data", data, "--answers", 1, "--samples", tmp_path / "no" / "said.jsonl")
    assert ended.status != 0
    assert "there is no such folder" in " ".join(ended.err.split())


def test_a_file_that_is_no_locomo(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    ended = run("eval", "locomo", "--data", path)
    assert ended.status == 1
    assert len(ended.err.strip().splitlines()) == 1
