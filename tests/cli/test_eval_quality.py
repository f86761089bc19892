import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ended import Run
from pretended_study import PretendedStudy

from precog.backbones.tenns.backbone import TennsBackbone
from precog.encoders.onnx_encoder import OnnxEncoder
from precog.errors import UsageError
from precog.evaluate import parts as parts_module
from precog.evaluate.squad import IN_CONTEXT_ONCE, MODES, PART_MODES
from precog.refine import study as study_module
from precog.refine.study import StudySettings
from precog.state import State
from precog.text.tokenizer import load_mistral_tokenizer

FACTS = ("Ada Quill built the lighthouse of Marrow in 1843.", "It was lit by oil of the whale for forty years.")
OTHERS = ("Tom Reed made the wheel of the mill of oak in 1790.", "The mill ground corn until the river fell dry.")
FACT, OTHER = map(" ".join, (FACTS, OTHERS))
TASKS = ("squad", "abstain", "hotpot", "nq")
ASKED, ANSWERED, NAMED = "Zyxquestion", "Zyxanswer", "Zyxid"
"""Words that stand in questions, answers and ids alone: whatever is studied with one of them has cheated."""


@pytest.fixture
def studying(monkeypatch: pytest.MonkeyPatch) -> PretendedStudy:
    pretended = PretendedStudy()
    monkeypatch.setattr(study_module, "study", pretended)
    monkeypatch.setattr(study_module, "check_can_study", lambda _backbone: None)
    return pretended


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Every text that a state or a key of a passage is made of, whoever asks for it."""
    made: dict[str, set[str]] = {"states": set(), "keys": set()}
    tokenizer = load_mistral_tokenizer()
    encode_chunks, encode_passages = TennsBackbone.encode_chunks, OnnxEncoder.encode_passages

    def noted_chunks(self: TennsBackbone, token_ids: Sequence[Sequence[int]]) -> list[State]:
        made["states"] |= {tokenizer.decode(list(ids)).strip() for ids in token_ids}
        return encode_chunks(self, token_ids)

    def noted_passages(self: OnnxEncoder, texts: list[str]) -> Any:
        made["keys"] |= set(texts)
        return encode_passages(self, texts)

    def query(self: OnnxEncoder, text: str) -> Any:  # as OnnxEncoder.encode_query, past what is written down
        [[key]] = encode_passages(self, [text])
        return key

    monkeypatch.setattr(TennsBackbone, "encode_chunks", noted_chunks)
    monkeypatch.setattr(OnnxEncoder, "encode_passages", noted_passages)
    monkeypatch.setattr(OnnxEncoder, "encode_query", query)
    return made


def squad_rows(contexts: Sequence[str] = (FACT, OTHER)) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{NAMED} {number}",
            "title": "Marrow",
            "context": context,
            "question": f"Who is {ASKED} {number}?",
            "answers": [f"{ANSWERED} {number}", "Ada Quill built"],
        }
        for number, context in enumerate(contexts)
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
    found = {task: folder / f"{task}.json" for task in TASKS}
    for task in ("squad", "abstain"):
        found[task].write_text("\n".join(map(json.dumps, squad_rows())))
    found["hotpot"].write_text(json.dumps(hotpot_rows()))
    found["nq"].write_text("\n".join(json.dumps({**row, "context_detok": row["context"]}) for row in squad_rows()))
    return found


@pytest.mark.parametrize("task", TASKS)
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
    told = ended.json["settings"] if task == "abstain" else ended.json
    assert told["study"] == {"steps": 4, "seconds": 1.5, "seed": 0}
    assert ended.json["refining"]["studied"] == ended.json["refining"]["refined"] == len(studying.texts)
    if task == "hotpot":
        assert not any(row["exact"] for table in ended.json["tables"].values() for row in table["rows"])
    assert "refined" in run(*arguments).out


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("quality", ["fast", "study"])
def test_nothing_of_questions_and_answers_is_made_offline(
    run: Run, model: Path, tmp_path: Path, offline: dict[str, set[str]], task: str, quality: str
) -> None:
    data = files(tmp_path)[task]
    ended = run("eval", task, "--data", data, "--model", model, "--quality", quality, "--json")
    assert ended.status == 0, ended.err
    parts = {part for part in (*FACTS, *OTHERS) if any(part == text.strip() for text in offline["states"])}
    keys = {part for part in (*FACTS, *OTHERS) if part in offline["keys"]}
    if quality == "fast":
        assert parts == keys == set()
    else:
        whole = {FACTS[1], OTHERS[1]} if task == "hotpot" else {*FACTS, *OTHERS}  # titles stand in the first parts
        assert parts == keys == whole
    for texts in offline.values():
        assert not [text for text in texts if "Zyx" in text]


def test_what_parts_are_worth_is_told(run: Run, model: Path, tmp_path: Path) -> None:
    data = files(tmp_path)["squad"]
    modes = ",".join(("in_context", "inject_top1", *PART_MODES))
    arguments = ("eval", "squad", "--data", data, "--model", model, "--modes", modes, "--quality", "study")
    told = run(*arguments, "--json").json
    fast = run(*arguments[:-4], "--json").json
    assert list(told["modes"]) == modes.split(",")
    assert told["bytes"] == 3 * fast["bytes"]
    assert (told["part_hit"], fast["part_hit"]) == (0.5, None)
    assert told["offline_sec"] > 0
    assert all(row["mean_ttft_sec"] > 0 for row in told["modes"].values())
    lines = run(*arguments).out.splitlines()
    assert max(len(line) for line in lines if "│" in line) <= 80
    assert [line for line in lines if line.startswith("a paragraph's states:")]
    assert not [mode for mode in modes.split(",") if not any(f" {mode} " in line for line in lines if "│" in line)]
    told_first = next(line for line in lines if line.startswith("first token after: ")).partition(": ")[2]
    assert [part.split()[0] for part in told_first.split(", ")] == modes.split(",")
    assert "the chosen part holds an answer: 50.0 % of the questions" in lines
    doubt = 100 * told["in_doubt_share"]
    assert f"others were as near: {doubt:.1f} % of the questions" in lines
    assert fast["in_doubt_share"] is None


@pytest.mark.parametrize("mode", PART_MODES)
def test_modes_of_parts_are_refused_without_parts(run: Run, tmp_path: Path, mode: str) -> None:
    ended = run("eval", "squad", "--data", files(tmp_path)["squad"], "--model", tmp_path / "none", "--modes", mode)
    [line] = ended.err.splitlines()
    assert (ended.status, f"--modes {mode} needs --quality study; given: --quality fast" in line) == (2, True)


@pytest.mark.parametrize("task", TASKS)
def test_a_model_whose_states_have_no_mean_is_refused_in_one_line(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, studying: PretendedStudy, task: str
) -> None:
    def refuse(_backbone: object) -> None:
        raise UsageError("this model's states cannot be averaged", hint="--quality twice")

    monkeypatch.setattr(parts_module, "check_can_focus", refuse)
    ended = run("eval", task, "--data", files(tmp_path)[task], "--model", model, "--quality", "study")
    [line] = ended.err.splitlines()
    assert (ended.status, "cannot be averaged; --quality twice" in line) == (2, True)


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
    data = tmp_path / "squad.json"
    data.write_text("\n".join(map(json.dumps, squad_rows((FACTS[0], OTHERS[0])))))
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


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "options", [("--quality", "magic"), ("--study-steps", "3"), ("--quality", "study", "--study-seconds", "nan")]
)
def test_what_cannot_be_is_refused_in_one_line(
    run: Run, model: Path, tmp_path: Path, task: str, options: tuple[str, ...]
) -> None:
    ended = run("eval", task, "--data", files(tmp_path)[task], "--model", model, *options)
    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
