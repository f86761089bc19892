import json
import os
import shutil
from pathlib import Path

import pytest
from ended import Run

from precog.backbones.tenns.checkpoint import read_card

TOWNS = ("Marrow", "Quill", "Gorse", "Anby", "Holt", "Ferry", "Dunlin", "Eastwick")
PEOPLE = ("Ada Reed", "Tom Quick", "Ida Barrow", "Ned Holm", "Una Frost", "Max Dale", "Eve Marsh", "Joe Thorn")


def _questions(path: Path, count: int, more: str = "") -> Path:
    rows = [
        {
            "id": f"{number:03}",
            "title": f"t{number % 11}",
            "context": f"{PEOPLE[number % 8]} built house {number} of {TOWNS[number // 8 % 8]}.{more}",
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


def test_answers_from_focused_states_are_measured_and_fitted_to(run: Run, model: Path, tmp_path: Path) -> None:
    data = _questions(tmp_path / "squad.jsonl", 44, " It burned down in the winter of a cold year.")
    arguments = ["eval", "abstain", "--data", data, "--model", model, "--limit", 3]
    fast, study = (run(*arguments, "--quality", quality, "--json").json for quality in ("fast", "study"))
    assert (fast["quality"], study["quality"]) == ("fast", "study")
    assert "quality" not in fast["settings"]
    assert study["settings"]["quality"] == "study"
    assert study["settings"]["parts"]["most"] == 3
    assert (
        fast["passage"]["own_and_best"]["raw_auroc"]
        == run(*arguments, "--json").json["passage"]["own_and_best"]["raw_auroc"]
    )
    file = tmp_path / "c.json"
    ended = run("eval", "abstain", "--fit", data, "--model", model, "--quality", "study", "--out", file, "--json")
    assert ended.status == 0, ended.err
    written = json.loads(file.read_text())
    assert ended.json["coefficients"] == written
    assert (written["fitted"]["quality"], written["fitted"]["questions"]) == ("study", 44)
    single = _questions(tmp_path / "single.jsonl", 44)
    ended = run(
        "eval", "abstain", "--fit", single, "--model", model, "--quality", "study", "--out", tmp_path / "no.json"
    )
    assert ended.status == 1
    assert "0 right, 0 wrong" in ended.err  # nothing to focus on


def test_coefficients_of_focused_answers_are_kept_beside_the_others(run: Run, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "own")
    data = _questions(tmp_path / "squad.jsonl", 44, " It burned down in the winter of a cold year.")
    fit = ["eval", "abstain", "--fit", data, "--model", folder, "--keep"]
    before = (folder / "precog.json").read_bytes()
    ended = run(*fit, "--quality", "study")
    assert ended.status == 1
    assert "no confidence for states that are read once" in ended.err
    assert (folder / "precog.json").read_bytes() == before
    plain = run(*fit, "--json")
    assert plain.status == 0, plain.err
    assert read_card(folder)[0].confidence == plain.json["coefficients"]
    measuring = ("--quality", "study", "--data", data, "--limit", 4, "--json")
    study = run(*fit, *measuring)
    assert study.status == 0, study.err
    assert read_card(folder)[0].confidence == {**plain.json["coefficients"], "focused": study.json["coefficients"]}
    assert study.json["coefficients"]["fitted"]["quality"] == "study"
    opened = run("eval", "abstain", "--model", folder, *measuring)
    assert opened.status == 0, opened.err
    for key in ("passage", "threshold", "withheld", "coefficients"):
        assert opened.json[key] == study.json[key]
    with_text = ("--corpus", tmp_path / "c")
    assert run("index", data, *with_text, "--model", folder, "--quality", "study").status == 0
    said = run("ask", "Who built house 3?", *with_text)
    assert said.status == 0, said.err


@pytest.mark.parametrize("told", ["--keep", "--out"])
def test_where_nothing_can_be_written_is_told_before_anything_is_asked(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    folder = shutil.copytree(model, tmp_path / "own")
    data = _questions(tmp_path / "squad.jsonl", 4)  # too few: it would be told if they had been asked
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, *how: Path(path) != folder and allowed(path, *how))
    where = (told,) if told == "--keep" else (told, folder / "c.json")
    ended = run("eval", "abstain", "--fit", data, "--model", folder, *where)
    assert ended.status == 1
    assert "nothing can be written to its folder" in ended.err
    assert "too few" not in ended.err


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
        (["--fit", "x", "--keep", "--quality", "twice"], "read twice; given: --keep"),
        (["--data", "x", "--study-steps", 3], "--study-steps needs --quality study"),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Run, arguments: list[object], said: str) -> None:
    ended = run("eval", "abstain", *arguments)
    assert ended.status == 2
    assert said in ended.err
