"""Training from the command line: texts to a model, examples to a better one, and one line for what cannot be."""

import io
import json
import re
import shlex
import signal
from pathlib import Path

import pytest
from ended import Run
from rich.console import Console

from precog.cli import progress as progress_module
from precog.cli.progress import RunProgress

FAST = ["--steps", "4", "--batch-chunks", "2", "--questions-per-chunk", "2", "--device", "cpu"]
TOWNS = ("Oslo", "Riga", "Bern", "Lyon", "Cork", "York", "Kiel", "Nice", "Bari", "Graz", "Linz", "Pisa")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number in range(24):
        town = TOWNS[number % len(TOWNS)]
        lines = [f"The mill of {town} was built in {1700 + 10 * number + i} by Ada Quill of York." for i in range(12)]
        (folder / f"{number:02}.txt").write_text(f"# Mills of {town}\n{' '.join(lines)}\n")
    return folder


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "mills.jsonl"
    rows = [
        {"id": f"{i}", "title": "Mills", "context": f"The mill of {town} was built in {1800 + i}.",
         "question": f"When was the mill of {town} built?", "answers": [str(1800 + i)]}
        for i, town in enumerate(TOWNS)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def losses(folder: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def test_a_folder_of_texts_is_enough_and_an_interrupted_run_goes_on_to_the_same_losses(
    texts: Path, here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = ["--set", "stream_rows=1", "--set", "stream_tokens=64"]
    words = ["train", "--preset", "tiny-outer", "--data", texts, "--workers", "1", *FAST, *windows]
    whole = run(*words, "--out", "whole")
    assert whole.status == 0, whole.err
    assert whole.out == "trained: `precog ask … --model whole/model` uses it\n"
    assert "held out, " in whole.err

    def stop(self: RunProgress, done: int, total: int, metrics: dict[str, object]) -> None:
        if done == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(RunProgress, "__call__", stop)
        cut = run(*words, "--json")
    assert cut.status == 130
    assert "writing to runs/tiny-outer" in cut.err
    assert cut.err.splitlines()[-1].startswith("precog: interrupted after step ")
    assert cut.err.splitlines()[-1].endswith("run the same command again to go on from there")
    assert cut.json["error"]["code"] == "interrupted"
    resumed = run(*words, "--json")
    assert resumed.status == 0, resumed.err
    assert resumed.json["step"] == 4
    assert losses(here / "runs" / "tiny-outer") == losses(here / "whole")
    assert "slices" not in resumed.err  # prepared once
    assert run("ask", "Where?", "--mode", "none", "--model", "runs/tiny-outer/model").status == 0


def test_one_file_is_enough(texts: Path, here: Path, run: Run) -> None:
    words = ["train", "--preset", "tiny", "--data", texts / "03.txt", "--workers", "1", *FAST, "--steps", "1"]
    assert run(*words, "--json").json["step"] == 1


def test_fine_tuning(model: Path, squad: Path, here: Path, run: Run) -> None:
    ended = run("train", "finetune", "--model", model, "--data", squad, *FAST, "--lr", "1e-2")
    assert ended.status == 0, ended.err
    assert "writing to runs/tiny-finetuned" in ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "held out: 1 question, trained on: 11"
    assert lines[1].startswith("cross-entropy of answers: 10.")
    assert lines[2].startswith("answered exactly: ")
    assert "`precog ask … --model runs/tiny-finetuned/model` uses it" in lines[3]
    again = run("train", "finetune", "--model", model, "--data", squad, *FAST, "--lr", "1e-2", "--json")
    assert again.json["step"] == 4
    assert again.json["after"]["answer"] < again.json["before"]["answer"]
    assert again.json["folder"] == "runs/tiny-finetuned/model"


def test_an_adapter_is_a_model_and_a_corpus_of_its_base_is_not_its_own(
    model: Path, squad: Path, corpus: Path, here: Path, run: Run
) -> None:
    trained = run("train", "lora", "--model", model, "--data", squad, *FAST, "--rank", "4", "--lr", "1e-2")
    assert trained.status == 0, trained.err
    adapter = "runs/tiny-lora/adapter"
    assert f"`precog train merge {adapter} --out DIR`" in trained.out
    assert run("ask", "When?", "--mode", "none", "--model", adapter).status == 0

    refused = run("ask", "When was the lighthouse built?", "--corpus", corpus, "--model", adapter, "--json")
    assert refused.status == 1
    assert refused.json["error"]["code"] == "state.foreign"
    error, made_by_base = refused.json["error"], run("info", "--corpus", corpus, "--json").json["fingerprint"]
    assert error["given"].startswith("tiny-lora (fingerprint ")
    assert error["expected"] == f"{model} (fingerprint {made_by_base[:12]})"
    assert error["given"][-13:] != error["expected"][-13:]
    command = shlex.split(error["hint"].partition(": ")[2])
    assert command == ["precog", "reindex", "--corpus", str(corpus), "--model", adapter]

    assert run(*command[1:]).status == 0
    answered = run("ask", "When was the lighthouse built?", "--corpus", corpus, "--json")
    assert answered.status == 0
    assert answered.json["model"] == "tiny-lora"
    assert run("info", "--corpus", corpus, "--json").json["fingerprint"][:12] in error["given"]

    merged = run("train", "merge", adapter, "--out", "merged", "--matrices", "int8", "--embedding", "int8", "--json")
    assert merged.json["quantisation"] == {"matrices": "int8", "embedding": "int8"}
    assert merged.json["bytes"] > 0
    assert run("ask", "When?", "--mode", "none", "--model", "merged").status == 0
    again = run("train", "merge", adapter, "--out", "merged")
    assert again.status == 2
    assert "the output exists already" in again.err
    assert "merged: `precog ask" in run("train", "merge", adapter, "--out", "merged-2").out


def test_what_is_left_out_is_explained_before_training(model: Path, squad: Path, here: Path, run: Run) -> None:
    rows = [json.loads(line) for line in squad.read_text().splitlines()]
    rows[3]["question"] *= 20
    (here / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = run("train", "lora", "--model", model, "--data", "some.jsonl", *FAST, "--steps", "1", "--json")
    assert ended.json["num_left_out"] == ended.json["num_too_long"] == 1
    _, told, measuring, *_ = ended.err.splitlines()
    assert told.startswith("1 of 12 questions were left out: 1 too long (a question may be 96 tokens long with ")
    assert measuring.startswith("measuring ")


def test_an_adapter_on_a_stranger(model: Path, other_model: Path, squad: Path, here: Path, run: Run) -> None:
    run("train", "lora", "--model", model, "--data", squad, *FAST, "--steps", "1", "--rank", "2", "--out", "run")
    ended = run("train", "merge", "run/adapter", "--out", "merged", "--base", other_model)
    assert ended.status == 1
    [line] = ended.err.splitlines()
    assert "this adapter was made for another model" in line
    assert "precog train lora" in line
    assert not (here / "merged").exists()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "which data?"),
        (["--data", "none"], 2, "--data: nothing is there"),
        (["--data", "", "--preset", "tiny"], 2, "a path is empty"),
        (["--data", ".", "--preset", "huge"], 1, "no such preset"),
        (["--data", ".", "--preset", "tiny", "--set", "lr"], 2, "--set takes KEY=VALUE"),
        (["--data", ".", "--preset", "tiny", "--set", "warm_steps=3"], 2, "did you mean warmup_steps?"),
        (["--data", ".", "--preset", "tiny", "--lr", "1", "--set", "lr=2"], 2, "given twice"),
        (["--data", ".", "--preset", "tiny", "--lr", "-1"], 2, "lr is out of range"),
        (["--data", ".", "--preset", "tiny", "--steps", "0"], 2, "steps is out of range"),
        (["--data", ".", "--preset", "tiny", "--optimiser", "sgd"], 2, "muon, adamw"),
        (["--data", ".", "--preset", "tiny", "--dtype", "int8"], 2, "float32, bfloat16"),
        (["--data", ".", "--preset", "tiny", "--device", "toaster"], 2, "auto, cpu, cuda"),
        (["--data", ".", "--preset", "tiny", "--mixture", "none"], 2, "--mixture: nothing is there"),
        (["--data", ".", "--preset", "tiny", "--initial", "none"], 2, "--initial: nothing is there"),
        (["--steps", "3", "lora", "--data", "x"], 2, "options stand before the command"),
        (["walk"], 2, "No such command"),
        (["finetune"], 2, "which examples?"),
        (["finetune", "--data", ""], 2, "a path is empty"),
        (["lora", "--data", "none"], 2, "--data: nothing is there"),
        (["finetune", "--data", "FILE", "--model", "none"], 1, "no such model"),
        (["finetune", "--data", "FILE", "--held-out", "1"], 2, "--held-out is out of range"),
        (["finetune", "--data", "FILE", "--model", "MODEL", "--lr", "nan"], 2, "lr is out of range"),
        (["finetune", "--data", "FILE", "--model", "MODEL", "--set", "parallel=fsdp"], 1, "whole copies"),
        (["lora", "--data", "FILE", "--rank", "0"], 2, "rank of an adapter"),
        (["lora", "--data", "FILE", "--targets", ","], 2, "no target"),
        (["lora", "--data", "FILE", "--set", "optimiser=muon"], 2, "trained by AdamW"),
        (["lora", "--data", "FILE", "--model", "MODEL", "--targets", "query"], 1, "the model lacks"),
        (["merge", "", "--out", "merged"], 2, "a path is empty"),
        (["merge", "MODEL", "--out", "merged"], 1, "this folder is no adapter"),
        (["merge", "MODEL", "--out", "merged", "--matrices", "int3"], 2, "--matrices: unknown scheme"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str], status: int, said: str, model: Path, squad: Path, here: Path, run: Run
) -> None:
    chosen = [str({"FILE": squad, "MODEL": model}.get(word, word)) for word in words]
    ended = run("train", *chosen)
    *before, line = ended.err.splitlines()
    assert ended.status == status, ended.err
    assert said in line
    assert all(text.startswith(("writing to ", "measuring ")) for text in before)
    assert not list(here.rglob("*.safetensors"))


def test_a_folder_without_texts(here: Path, run: Run) -> None:
    (here / "empty").mkdir()
    ended = run("train", "--preset", "tiny", "--data", "empty", "--out", "run")
    assert ended.status == 1
    [line] = ended.err.splitlines()
    assert "holds no text to train on" in line


def test_another_setting_is_not_resumed(model: Path, squad: Path, here: Path, run: Run) -> None:
    words = ["train", "finetune", "--model", model, "--data", squad, *FAST, "--out", "run"]
    assert run(*words, "--steps", "2").status == 0
    ended = run(*words, "--steps", "3")
    assert ended.status == 1
    line = ended.err.splitlines()[-1]
    assert "another settings" in line
    assert "steps" in line


def test_a_run_on_other_data_is_named_with_both(model: Path, squad: Path, texts: Path, here: Path, run: Run) -> None:
    words = ["train", "lora", "--model", model, *FAST, "--steps", "1"]
    assert run(*words, "--data", squad).status == 0
    talk = [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Hello!"}]
    lines = [{"messages": [{"role": "user", "content": town}, talk[1], *talk]} for town in TOWNS]
    (here / "talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ended = run(*words, "--data", "talks.jsonl")
    assert ended.status == 1
    assert re.search(
        r"runs/tiny-lora holds a run on other data; given: talks\.jsonl \(\w{8}\);"
        r" expected: mills\.jsonl \(\w{8}\); choose another --out folder",
        ended.err.splitlines()[-1],
    )
    prose = ["train", "--preset", "tiny", "--workers", "1", *FAST, "--steps", "1", "--data"]
    assert run(*prose, texts / "03.txt").status == 0
    other = run(*prose, texts / "04.txt")
    assert re.search(
        rf"runs/tiny holds a run on other data; given: {texts}/04\.txt \(\w{{8}}\); expected: {texts}/03\.txt \(",
        other.err.splitlines()[-1],
    )


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    text = io.StringIO()
    monkeypatch.setattr(progress_module, "err", Console(file=text, width=120))
    monkeypatch.setattr(progress_module, "LINE_EVERY_SEC", 0.0)
    return text


def test_without_a_terminal_progress_is_a_line_now_and_then(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 60))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: float(next(clock)))
    with RunProgress() as progress:
        progress(1, 100, {"loss": 3.25})
        progress(2, 100, {"loss": 3.0, "tokens_per_sec": 5230, "mfu": 0.414})
    first, second = written.getvalue().splitlines()
    assert first == "step 1 of 100 · loss 3.250"
    assert second == "step 2 of 100 · loss 3.000 · 5,230 tokens/s · MFU 41.4% · 1:38:00 left"


@pytest.mark.parametrize("terminal", [False, True])
def test_the_evaluation_is_seen(
    terminal: bool, written: io.StringIO, monkeypatch: pytest.MonkeyPatch, model: Path, squad: Path, texts: Path,
    here: Path, run: Run,
) -> None:  # fmt: skip
    if terminal:
        monkeypatch.setattr(progress_module, "err", Console(file=written, force_terminal=True, width=120))

    def seen() -> str:
        text = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", written.getvalue())
        written.seek(0)
        written.truncate()
        return text

    windows = ["--set", "stream_rows=1", "--set", "stream_tokens=64"]
    prose = ["train", "--preset", "tiny-outer", "--workers", "1", "--data", texts, *FAST, *windows, "--steps", "1"]
    assert run(*prose, "--out", "run").status == 0
    last = seen().split("step", 1)[1]
    assert re.search(
        r"evaluation batch 12/12 .* 0:00 left" if terminal else "evaluation batch 12 of 12 · 0:00 left\n", last
    )
    words = ["train", "lora", "--model", model, "--data", squad, *FAST, "--steps", "1"]
    assert run(*words).status == 0
    text = seen()
    if terminal:
        assert re.search("evaluation batch 1/1 .* 0:00 left", text)
    else:
        before, after = text.split("step", 1)
        for part in (before, after):
            assert "evaluation batch 0 of 1\nevaluation batch 1 of 1 · 0:00 left\n" in part


def test_other_processes_of_a_run_are_silent(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    progress_module.say("words")
    with RunProgress() as progress:
        progress(1, 2, {"loss": 3.25})
    assert written.getvalue() == ""


def test_on_a_terminal_progress_is_a_bar(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "err", Console(file=written, force_terminal=True, width=120))
    with RunProgress() as progress:
        progress(1, 2, {"loss": 3.25})
    assert "1/2" in written.getvalue()
    assert "loss 3.250" in written.getvalue()


def test_a_result_that_could_not_be_written_is_refused_before_training(
    model: Path, squad: Path, texts: Path, here: Path, run: Run
) -> None:
    (here / "taken" / "model").mkdir(parents=True)
    (here / "taken" / "model" / "config.json").write_text("mine")
    (here / "mine").mkdir()
    (here / "mine" / "model").symlink_to(model)
    examples = ["--model", model, "--data", squad, *FAST]
    prose = ["train", "--preset", "tiny", "--data", texts, *FAST]
    for words, said in (
        (["train", "finetune", *examples, "--out", "taken"], "not of a model written before"),
        (["train", "finetune", *examples, "--out", "mine"], "replace the model it starts from"),
        (["train", "finetune", *examples, "--name", "\udcff"], "--name is not valid Unicode"),
        (["train", "lora", *examples, "--out", "\udcff"], "the folder's name is not valid Unicode"),
        ([*prose, "--out", "taken"], "not of a model written before"),
        ([*prose, "--out", "\udcff"], "which the model gets, is not valid Unicode"),
    ):
        ended = run(*words)
        assert (ended.status, ended.out) == (2, "")
        [line] = ended.err.splitlines()
        assert said in line
    assert (here / "taken" / "model" / "config.json").read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == ["mine", "taken"]
