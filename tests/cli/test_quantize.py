"""``precog quantize``: round trip, table, and what is refused before anything is written."""

import json
from pathlib import Path

import pytest
from ended import Run

from precog.backbones.tenns.checkpoint import load_model, read_card


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "held.txt"
    path.write_text("# Lamp\n" + "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burns oil. " * 20)
    return path


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("squad") / "q.jsonl"
    row = {"title": "Marrow", "context": "Ada Quill built the lighthouse.", "question": "Who built it?"}
    path.write_text("".join(json.dumps({**row, "id": str(i), "answers": ["Ada Quill"]}) + "\n" for i in range(3)))
    return path


def test_a_model_is_written_in_fewer_bits_and_loads(tmp_path: Path, model: Path, run: Run) -> None:
    out = tmp_path / "small"
    ended = run("quantize", model, out, "--matrices", "int4:32", "--name", "tiny-4", "--json")
    assert ended.status == 0
    assert ended.json["written"] == {"folder": str(out), "name": "tiny-4"}
    before, after = ended.json["rows"]
    assert after["bytes"] < 0.4 * before["bytes"]
    assert {kind["scheme"] for kind in after["kinds"]} == {"int4:32", "int8"}
    assert "perplexity" not in after
    assert read_card(out)[0].quantisation == {"matrices": "int4:32", "embedding": "int8"}
    assert load_model(out)[1].name == "tiny-4"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small"]
    again = run("quantize", model, out)
    assert again.status == 2
    assert "exists already" in again.err


def test_schemes_are_compared_without_writing(
    tmp_path: Path, model: Path, text: Path, squad: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--text", text, "--text-tokens", 300, "--squad", squad, "--limit", 2, "--calibrate", text)
    ended = run("quantize", model, "--compare", "int8,int4:32", *arguments, "--json")
    assert ended.status == 0
    before, eight, four = ended.json["rows"]
    assert (before["matrices"], eight["matrices"], four["matrices"]) == ("fp32", "int8", "int4:32")
    assert (eight["calibrated"], four["calibrated"]) == (False, True)
    for row in (before, eight, four):
        assert row["perplexity"]["num_tokens"] == 300
        assert 0 <= row["squad"]["em"] <= row["squad"]["f1"] <= 100
        assert row["tokens_per_sec"]["float32"] > 0
    assert before["perplexity"]["change"] == 0
    ratio = four["perplexity"]["value"] / before["perplexity"]["value"]
    assert four["perplexity"]["change"] == pytest.approx(ratio - 1, abs=1e-6)
    assert abs(eight["perplexity"]["change"]) < 0.02
    assert four["tokens_per_sec"]["packed"] > 0
    assert ended.json["machine"]["cpu"]
    assert not list(tmp_path.iterdir())
    people = run("quantize", model, "--compare", "int8", "--text", text, "--text-tokens", 50, "--packed")
    assert people.status == 0
    assert "ppl" in people.out


@pytest.mark.parametrize(("calibrated", "expected"), [(True, "int4:32"), (False, "int8")])
def test_left_to_itself_it_takes_the_smallest_form_that_costs_little(
    calibrated: bool, expected: str, tmp_path: Path, model: Path, text: Path, run: Run
) -> None:
    ended = run("quantize", model, tmp_path / "out", *(("--calibrate", text) if calibrated else ()))
    assert ended.status == 0
    assert read_card(tmp_path / "out")[0].quantisation == {"matrices": expected, "embedding": "int8"}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["{model}"], 2, "either OUT or --compare"),
        (["{model}", "{out}", "--compare", "int8"], 2, "either OUT or --compare"),
        (["{model}", "{out}", "--matrices", "int3"], 2, "no such quantisation"),
        (["{model}", "{out}", "--matrices", "int4:128"], 1, "does not divide"),
        (["{model}", "{out}", "--embedding", "int5"], 2, "no such quantisation"),
        (["nowhere", "{out}"], 1, "no such model"),
        (["{model}", "{out}", "--calibrate", "nowhere.txt"], 1, "cannot be read"),
        (["{model}", "{out}", "--calibrate", "{short}"], 1, "too short"),
        (["{model}", "{out}", "--matrices", "int8", "--squad", "{short}"], 1, "not a SQuAD"),
        (["{model}", "{out}", "--name", "\udcff"], 2, "--name is not valid Unicode"),
        (["{model}", "--compare", "int8", "--squad", "{short}", "--limit", "-3"], 2, "--limit"),
        (["{model}", "--compare", "int8", "--squad", "{short}", "--limit", "0"], 2, "--limit"),
        (["{model}", "{model}/out"], 2, "inside what it is made of"),
        (["{model}", "{out}", "--matrices", "int8", "--shard-mb", "1"], 2, "embedding table is larger"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_and_nothing_is_left(
    arguments: list[str], status: int, message: str, tmp_path: Path, model: Path, run: Run
) -> None:
    short = tmp_path / "short.txt"
    short.write_text("Too short.\n")
    out = tmp_path / "room" / "out"
    given = [word.format(model=model, out=out, short=short) for word in arguments]
    ended = run("quantize", *given)
    assert ended.status == status
    *_, line = ended.err.splitlines()
    assert line.startswith("precog: ")
    assert message in line
    assert "Traceback" not in ended.err
    assert not out.exists()
    assert not list(tmp_path.glob("room/.*"))


def test_the_folder_of_a_run_stands_for_its_model(tmp_path: Path, model: Path, run: Run) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").symlink_to(model)
    ended = run("quantize", tmp_path / "run", tmp_path / "out", "--matrices", "int8", "--json")
    assert ended.status == 0
    assert ended.json["source"] == str(tmp_path / "run" / "model")
