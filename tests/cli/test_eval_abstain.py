import json
from pathlib import Path

import pytest
from ended import Run

from precog.backbones.tenns.checkpoint import read_card

TOWNS = ("Marrow", "Quill", "Gorse", "Anby", "Holt", "Ferry", "Dunlin", "Eastwick")
PEOPLE = ("Ada Reed", "Tom Quick", "Ida Barrow", "Ned Holm", "Una Frost", "Max Dale", "Eve Marsh", "Joe Thorn")


def _questions(path: Path, count: int) -> Path:
    rows = [
        {
            "id": f"{number:03}",
            "title": f"t{number % 11}",
            "context": f"{PEOPLE[number % 8]} built house {number} of {TOWNS[number // 8 % 8]}.",
            "question": f"Who built house {number}?",
            "answers": [PEOPLE[number % 8]],
        }
        for number in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_confidence_is_measured(run: Run, model: Path, tmp_path: Path) -> None:
    data = _questions(tmp_path / "squad.jsonl", 24)
    ended = run("eval", "abstain", "--data", data, "--model", model, "--limit", 3, "--json")
    assert ended.status == 0, ended.err
    assert ended.json["settings"]["n"] == 3
    assert ended.json["coefficients"] is None
    assert {"passage", "answer", "exact", "threshold", "withheld", "right_of_given"} <= set(ended.json)
    shown = run("eval", "abstain", "--data", data, "--model", model, "--limit", 3)
    assert shown.status == 0
    assert "Confidence, 3 questions" in shown.out
    assert "passage, own and best" in shown.out


def test_given_coefficients_decide(run: Run, model: Path, tmp_path: Path) -> None:
    data, file = _questions(tmp_path / "squad.jsonl", 24), tmp_path / "c.json"
    file.write_text(json.dumps({"bias": -3.0, "weights": {}, "threshold": 0.5, "fitted": {}}))
    arguments = ["eval", "abstain", "--data", data, "--model", model, "--limit", 3, "--coefficients", file]
    ended = run(*arguments, "--json")
    assert ended.status == 0, ended.err
    assert set(ended.json["withheld"].values()) == {1.0}
    file.write_text(json.dumps({"bias": -3.0}))
    ended = run(*arguments)
    assert ended.status == 1
    assert "has other keys" in ended.err


def test_too_few_answers_are_not_fitted_to_and_nothing_is_written(run: Run, model: Path, tmp_path: Path) -> None:
    data, file = _questions(tmp_path / "squad.jsonl", 24), tmp_path / "c.json"
    before = read_card(model)[0]
    ended = run("eval", "abstain", "--fit", data, "--fit-limit", 4, "--model", model, "--out", file, "--keep")
    assert ended.status == 1
    assert "too few answers to fit a confidence to" in ended.err
    assert not file.exists()
    assert read_card(model)[0] == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to do"),
        (["--data", "x", "--keep"], "need something fitted"),
        (["--fit", "x", "--coefficients", "y"], "coefficients are fitted or given"),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Run, arguments: list[str], said: str) -> None:
    ended = run("eval", "abstain", *arguments)
    assert ended.status == 2
    assert said in ended.err
