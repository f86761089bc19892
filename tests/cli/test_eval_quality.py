import json
from pathlib import Path
from typing import Any

import pytest
from ended import Run
from pretended_study import PretendedStudy

from precog.evaluate.squad import IN_CONTEXT_ONCE, MODES
from precog.refine import study as study_module
from precog.refine.study import StudySettings
from precog.text.tokenizer import load_mistral_tokenizer

FACT = "Ada Quill built the lighthouse of Marrow in 1843."
OTHER = "Tom Reed made the wheel of the mill of oak in 1790."
ASKED, ANSWERED, NAMED = "Zyxquestion", "Zyxanswer", "Zyxid"
"""Words that stand in questions, answers and ids alone: whatever is studied with one of them has cheated."""


@pytest.fixture
def studying(monkeypatch: pytest.MonkeyPatch) -> PretendedStudy:
    pretended = PretendedStudy()
    monkeypatch.setattr(study_module, "study", pretended)
    monkeypatch.setattr(study_module, "check_can_study", lambda _backbone: None)
    return pretended


def squad_rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{NAMED} {number}",
            "title": "Marrow",
            "context": context,
            "question": f"Who is {ASKED} {number}?",
            "answers": [f"{ANSWERED} {number}", "Ada Quill"],
        }
        for number, context in enumerate((FACT, OTHER))
    ]


def hotpot_rows() -> list[dict[str, Any]]:
    return [
        {
            "_id": f"{NAMED} {number}",
            "question": f"Who is {ASKED} {number}?",
            "answer": f"{ANSWERED} {number}",
            "supporting_facts": [["Lighthouse", 0]],
            "context": [["Lighthouse", [FACT]], ["Mill", [OTHER]]],
        }
        for number in range(2)
    ]


def files(folder: Path) -> dict[str, Path]:
    found = {task: folder / f"{task}.json" for task in ("squad", "hotpot", "nq")}
    found["squad"].write_text("\n".join(map(json.dumps, squad_rows())))
    found["hotpot"].write_text(json.dumps(hotpot_rows()))
    found["nq"].write_text("\n".join(json.dumps({**row, "context_detok": row["context"]}) for row in squad_rows()))
    return found


@pytest.mark.parametrize("task", ["squad", "hotpot", "nq"])
def test_nothing_of_questions_and_answers_is_studied(
    run: Run, model: Path, tmp_path: Path, studying: PretendedStudy, task: str
) -> None:
    data = files(tmp_path)[task]
    for marker in (ASKED, ANSWERED, NAMED):
        assert marker in data.read_text()
    arguments = ("eval", task, "--data", data, "--model", model, "--quality", "study", "--study-steps", 4)
    ended = run(*arguments, "--study-seconds", "1.5", "--json")
    assert ended.status == 0, ended.err
    tokenizer = load_mistral_tokenizer()
    read = [tokenizer.decode(ids) for ids in studying.token_ids]
    given = {"Lighthouse. " + FACT, "Mill. " + OTHER} if task == "hotpot" else {FACT, OTHER}
    assert set(studying.texts) == {text.strip() for text in read} == given
    assert set(studying.titles) == {""}
    everything = repr((studying.texts, studying.titles, read, studying.settings))
    assert not [marker for marker in (ASKED, ANSWERED, NAMED, "Zyx") if marker in everything]
    assert set(studying.settings) == {StudySettings(4, 1.5)}
    assert ended.json["quality"] == "study"
    assert ended.json["study"] == {"steps": 4, "seconds": 1.5, "seed": 0}
    assert ended.json["refining"]["studied"] == ended.json["refining"]["refined"] == len(studying.texts)
    if task == "hotpot":
        assert not any(row["exact"] for table in ended.json["tables"].values() for row in table["rows"])
    assert "refined" in run(*arguments).out


def test_refined_states_answer_and_reading_does_not_change(
    run: Run, model: Path, tmp_path: Path, studying: PretendedStudy
) -> None:
    data = files(tmp_path)["squad"]
    confidences = {}
    for quality in ("fast", "study"):
        samples = tmp_path / f"{quality}.jsonl"
        steps = ("--study-steps", 3) if quality == "study" else ()
        arguments = ("eval", "squad", "--data", data, "--model", model, "--modes", "in_context,inject_top1", "--free")
        assert run(*arguments, "--quality", quality, *steps, "--samples", samples).status == 0
        confidences[quality] = [json.loads(line)["said"] for line in samples.read_text().splitlines()]
    pairs = list(zip(confidences["fast"], confidences["study"], strict=True))
    assert all(fast["in_context"] == study["in_context"] for fast, study in pairs)
    assert all(fast["in_context"] == fast["inject_top1"] for fast, _ in pairs)
    assert any(fast["inject_top1"] != study["inject_top1"] for fast, study in pairs)


def test_what_is_read_twice_is_compared_with_reading_once(run: Run, model: Path, tmp_path: Path) -> None:
    data = files(tmp_path)["squad"]
    arguments = ("eval", "squad", "--data", data, "--model", model, "--json")
    twice = run(*arguments, "--quality", "twice").json
    once = run(*arguments, "--modes", f"in_context,{IN_CONTEXT_ONCE}").json
    assert (twice["quality"], twice["encoding"]["mode"], once["quality"]) == ("twice", "twice", "fast")
    assert set(twice["modes"]) == {*MODES, IN_CONTEXT_ONCE}
    read = {mode: row["mean_tokens_processed"] for mode, row in twice["modes"].items()}
    assert read["in_context"] - read["inject_top1"] == 2 * (read[IN_CONTEXT_ONCE] - read["inject_top1"])
    for score in ("em", "f1"):
        assert once["modes"]["in_context"][score] == once["modes"][IN_CONTEXT_ONCE][score]
        assert once["modes"]["in_context"][score] == twice["modes"][IN_CONTEXT_ONCE][score]


@pytest.mark.parametrize("task", ["squad", "hotpot", "nq"])
@pytest.mark.parametrize(
    "options", [("--quality", "magic"), ("--study-steps", "3"), ("--quality", "study", "--study-seconds", "nan")]
)
def test_what_cannot_be_is_refused_in_one_line(
    run: Run, model: Path, tmp_path: Path, task: str, options: tuple[str, ...]
) -> None:
    ended = run("eval", task, "--data", files(tmp_path)[task], "--model", model, *options)
    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
