import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ended import Run

from precog.cli import main as main_module
from precog.cli.main import COMMANDS
from precog.cli.output import print_json
from precog.store import CorpusStore
from precog.store.folder import CorpusFolder

PRECOG = [sys.executable, "-m", "precog.cli.main"]


def test_help_answers_at_once() -> None:
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([*PRECOG, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.3


def test_help_names_every_command(run: Run) -> None:
    ended = run("--help")
    assert ended.status == 0
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in ended.out
        assert line in ended.out
    assert run().status == 2
    assert run("--version").out.startswith("precog ")


def test_a_mistyped_command_is_guessed(run: Run) -> None:
    ended = run("serch", "x")
    assert ended.status == 2
    assert "precog search" in ended.err


def test_an_unexpected_error_is_a_bug_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str, _arguments: list[str]) -> int:
        raise KeyError("what\nis this")

    monkeypatch.setattr(main_module, "_run_command", broken)
    ended = run("list", "--json")
    assert ended.status == 1
    [line] = ended.err.splitlines()
    assert line.startswith("precog: this is a bug in precog: KeyError at ")
    assert "KeyError at test_main.py:" in line
    assert ended.json["error"]["code"] == "bug"
    monkeypatch.setenv("PRECOG_DEBUG", "1")
    assert "Traceback" in run("list").err


def test_an_interruption_is_told_in_json_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_name: str, _arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "_run_command", interrupted)
    ended = run("index", "x", "--json")
    assert ended.status == 130
    assert ended.json["error"]["code"] == "interrupted"
    assert ended.err == "precog: interrupted; what was acknowledged is kept, run it again to go on\n"
    assert run("index", "x").out == ""
    assert run("ask", "x").err == "precog: interrupted\n"  # nothing was kept


def test_an_interruption_says_what_is_kept_and_repeats_the_command(
    docs: Path, corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("precog.corpus.writer.UnitWriter.commit", stopped)
    words = ("reindex", "--quality", "twice", "--corpus", str(corpus))
    [line] = run(*words).err.strip().splitlines()
    assert line.startswith("precog: interrupted; 0 of ")
    assert line.endswith(f"; to go on: precog {' '.join(words)}")
    told = run("info", "--corpus", corpus)
    assert f"to go on: precog reindex --corpus {corpus} --quality twice" in told.out
    assert run("info", "--corpus", corpus, "--json").json["unfinished"]["chunks"] == 0
    (docs / "new.txt").write_text("A new one that nobody has read.")
    [line] = run("index", docs, "--corpus", corpus).err.strip().splitlines()
    assert "whole documents and" in line
    assert line.endswith(f"; to go on: precog index {docs} --corpus {corpus}")


def test_a_file_that_cannot_be_used_is_no_bug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_name: str, _arguments: list[str]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "notes.txt")

    monkeypatch.setattr(main_module, "_run_command", full)
    ended = run("list", "--json")
    assert ended.status == 1
    assert ended.err == "precog: a file or folder cannot be used; given: notes.txt; No space left on device\n"
    assert ended.json["error"]["code"] == "storage"


def test_the_prompt_answers_line_by_line(corpus: Path) -> None:
    questions = "Who built the lighthouse?\n\nWho made the wheel?\n"
    ended = subprocess.run(
        [*PRECOG, "ask", "--corpus", str(corpus), "--threads", "1", "--json"],
        input=questions,
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = ended.stdout.splitlines()
    assert '"startup": 0.0' not in first
    assert '"startup": 0.0' in second
    assert [json.loads(line)["question"] for line in (first, second)] == questions.split("\n")[0:3:2]


def test_what_people_see(corpus: Path, run: Run) -> None:
    ended = run("ask", "Who built the lighthouse of Marrow?", "--corpus", corpus)
    assert ended.status == 0
    assert "lighthouse.md" in ended.out
    assert "characters" in ended.out
    assert "confidence" in ended.out
    assert "first token after" in ended.out
    assert ended.out.count(", injected\n") == 1
    assert ended.out.count(", only found\n") == 1
    ended = run("ask", "Who?", "--corpus", corpus, "--free", "--max-tokens", 2)
    assert "the model's own words, not grounded in the documents" in ended.out
    assert "confidence" not in ended.out
    ended = run("ask", "Who?", "--corpus", corpus, "--free", "--min-confidence", 1)
    assert ended.status == 2
    assert "a free answer has no confidence" in ended.err
    ended = run("ask", "xyzzy", "--corpus", corpus, "--retrieval", "bm25")
    assert ended.out.startswith("not found in these documents\n")
    ended = run("ask", "Who?", "--corpus", corpus, "--min-confidence", 1)
    assert ended.status == 0
    assert ended.out.startswith("not found in these documents\n")
    assert ", below 1.000" in ended.out
    assert "lighthouse.md" not in ended.out


def test_standard_input_is_a_document(tmp_path: Path, model: Path) -> None:
    ended = subprocess.run(
        [*PRECOG, "index", "-", "--corpus", str(tmp_path / "c"), "--model", str(model), "--threads", "1"],
        input="The ferry to Hale leaves at nine.",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 new" in ended.stdout
    with CorpusStore.open(tmp_path / "c") as store:
        assert [row.info.source for row in store.documents()] == ["stdin"]


def test_a_corpus_among_its_documents_is_not_one_of_them(docs: Path, model: Path, run: Run) -> None:
    words = ("index", docs, "--corpus", docs / "corpus", "--model", model, "--all", "--json")
    assert run(*words).json["documents"]["new"] == 2
    again = run(*words).json
    assert again["documents"] == {"new": 0, "changed": 0, "unchanged": 2, "failed": 0, "missing": 0}
    assert again["skipped"]["file of the corpus itself"] > 0


def test_a_terminal_without_the_characters_shows_their_numbers(corpus: Path) -> None:
    ended = subprocess.run(
        [*PRECOG, "ask", "Who?", "--corpus", str(corpus), "--threads", "1"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert b"\\u2013" in ended.stdout


def test_what_is_not_finite_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), 1.5], "b": {"c": float("inf")}, "d": True})
    assert capsys.readouterr().out == '{"a": [null, 1.5], "b": {"c": null}, "d": true}\n'


def test_a_reader_that_goes_away_is_no_error(corpus: Path) -> None:
    process = subprocess.Popen(
        [*PRECOG, "list", "--corpus", str(corpus)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait()


def test_an_interrupted_run_goes_on(tmp_path: Path, model: Path, run: Run) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in range(12):
        text = "\n\n".join(
            f"Paragraph {n} of book {name} is about ship {n * 7}, built in {1500 + n}." for n in range(40)
        )
        (docs / f"{name}.txt").write_text(text)
    options = ["--model", str(model), "--chunk-tokens", "32", "--strategy", "paragraph", "--threads", "1"]
    assert run("index", docs, "--corpus", tmp_path / "whole", *options).status == 0
    corpus = tmp_path / "c"
    words = ["index", str(docs), "--corpus", str(corpus), *options]

    def num_chunks() -> int:
        if not CorpusFolder(corpus).exists:
            return 0
        with CorpusStore.open(corpus) as store:
            return store.size().num_chunks

    def interrupted(number: signal.Signals) -> subprocess.CompletedProcess[str]:
        before = num_chunks()
        # on a busy machine whoever looks is to look in time
        polite = [sys.executable, "-c", "import os, sys; os.nice(15); os.execv(sys.argv[1], sys.argv[1:])"]
        process = subprocess.Popen(
            [*polite, *PRECOG, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None and num_chunks() == before:
            time.sleep(0.01)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
        assert before < num_chunks() < 480  # a busy machine may look late
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    for number in (signal.SIGINT, signal.SIGTERM):
        politely = interrupted(number)
        assert politely.returncode == 130
        assert politely.stdout == ""
        [line] = politely.stderr.splitlines()
        assert line.startswith("precog: interrupted")
    assert interrupted(signal.SIGKILL).returncode == -signal.SIGKILL
    assert run(*words).status == 0
    with CorpusStore.open(corpus) as store, CorpusStore.open(tmp_path / "whole") as whole:
        assert store.checksum() == whole.checksum()


@pytest.mark.parametrize(("words", "hint"), [(["memory", "remember"], True), (["memory", "list"], False)])
def test_what_an_interrupted_memory_command_says(
    words: list[str], hint: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(name: str, arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("precog.cli.main._run_command", stopped)
    ended = run(*words)
    assert ended.status == 130
    [line] = ended.err.splitlines()
    assert line.startswith("precog: interrupted")
    assert ("run it again to go on" in line) == hint


_WAITS = """
import sys, os, time
from precog.cli import main
def waits(name, arguments):
    read, write = os.pipe()
    if "fork" in arguments and not (child := os.fork()):
        os.write(write, b"ready")
        time.sleep(20)
    if "fork" in arguments:
        os.read(read, 5)
        os.kill(child, 15)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 100)
    print("ready", flush=True)
    time.sleep(60)
main._run_command = waits
main.main(sys.argv[1:])
"""


def test_sigterm_is_an_interruption_wherever_a_command_is() -> None:
    words = [sys.executable, "-c", _WAITS, "list"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.splitlines() == ["precog: interrupted"]  # it keeps nothing to go on from
    ended = subprocess.run([*words, "fork"], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 100 - signal.SIGTERM  # a forked process ends as it always did, without a word
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("module", "told"),
    [("precog.gone", "the installation lacks a part of it"), ("gone_altogether", "needs a package")],
)
def test_what_is_missing_is_named(module: str, told: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "models", (f"{module}:models", ""))
    ended = run("models")
    assert (ended.status, module in ended.err, told in ended.err) == (2, True, True)
