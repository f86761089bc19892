"""Standard input and output that are closed, full, or not text: one clear line, and never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ended import Run

from precog.cli.text import json_line, visible

PRECOG = f"{sys.executable} -m precog.cli.main"


def shell(words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", f"{PRECOG} {words}"], input=stdin, capture_output=True, check=False, timeout=120)


def one_line(ended: subprocess.CompletedProcess[bytes]) -> str:
    [line] = ended.stderr.decode().splitlines()
    assert line.startswith("precog: ")
    assert "bug" not in line
    assert ended.returncode == 1
    return line


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
@pytest.mark.parametrize(
    "words", ["--help", "ask --help", "list", "list --json", "info", "search lamp", "search lamp --json"]
)
def test_a_full_output_is_one_line(corpus: Path, words: str) -> None:
    where = "" if "--help" in words else f" --corpus {corpus}"
    line = one_line(shell(f"{words}{where} >/dev/full"))
    assert "standard output cannot be written; No space left" in line


@pytest.mark.parametrize("words", ["--help", "info --corpus {}", "info --corpus {} --json"])
def test_a_closed_output_is_one_line(corpus: Path, words: str) -> None:
    assert "standard output is closed" in one_line(shell(f"{words.format(corpus)} >&-"))


def test_messages_that_cannot_be_written_do_not_matter(corpus: Path) -> None:
    for words in ("2>&-", "2>/dev/full"):
        ended = shell(f"list --corpus {corpus} {words}")
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert b"lighthouse.md" in ended.stdout
        ended = shell(f"list --corpus nowhere {words}")
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


def test_a_closed_or_empty_input_is_one_line(corpus: Path, model: Path, tmp_path: Path) -> None:
    assert "standard input is closed" in one_line(shell(f"ask --corpus {corpus} <&-"))
    assert "no question" in one_line(shell(f"ask --corpus {corpus} </dev/null"))
    ended = shell(f"index - --corpus {tmp_path / 'new'} --model {model} <&-")
    assert "standard input is closed" in one_line(ended)
    assert not (tmp_path / "new").exists()


def test_piped_questions_stand_before_their_answers_and_bad_bytes_do_not_end_the_prompt(corpus: Path) -> None:
    questions = b"Who built the lighthouse?\nWho \xff made it?\nWhat does it burn?\n"
    ended = shell(f"ask --corpus {corpus} --threads 1", questions)
    assert ended.returncode == 0
    lines = ended.stdout.decode().splitlines()
    assert "the line is not UTF-8; given: byte 4 of it" in ended.stderr.decode()
    at = [lines.index(f"? {question}") for question in ("Who built the lighthouse?", "What does it burn?")]
    assert at == sorted(at)
    assert at[0] == 0
    assert all(lines[number - 1] == "" for number in at[1:])


def test_characters_that_steer_a_terminal_are_shown(run: Run, corpus: Path, docs: Path) -> None:
    evil = "\x1b]0;owned\x07 \x9b31m \u202ereversed \x7f words of a shipwreck"
    (docs / "evil.txt").write_text(evil + " on a long calm evening" * 50, newline="")
    assert run("index", docs, "--corpus", corpus).status == 0
    told = run("search", "shipwreck", "--corpus", corpus, "--top-k", 1)
    assert "shipwreck" in told.out
    assert not set("\x1b\x07\x9b\u202e\x7f") & set(told.out)
    assert "␛]0;owned␇" in told.out
    assert "\\u202e" in told.out
    ended = run("search", "shipwreck", "--corpus", corpus, "--top-k", 1, "--json")
    assert ended.json["hits"][0]["text"].startswith(evil)
    assert not set("\x1b\x07\x9b\u202e\x7f") & set(ended.out)
    ended = run("list", "--corpus", "no\x1b[31mwhere\x9b", "--json")
    assert not set("\x1b\x9b") & set(ended.out + ended.err)
    assert json_line({"é": "\x9b\n"}) == '{"é": "\\u009b\\n"}'
    ends = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\n"
    assert len(json_line({ends: ends}).splitlines()) == 1
    assert json.loads(json_line({ends: ends})) == {ends: ends}
    assert visible("añ 語\t🙂\n[bold]") == "añ 語\t🙂\n[bold]"
