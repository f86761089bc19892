"""``precog chat`` and ``precog memory`` as commands: what is told in one process comes back in the next."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precog.cli.conversation import converse
from precog.errors import StorageError

SAID = ["My sister Clara moved to Lisbon in March.", "The car stands on level three of the garage."]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def precog(home: Path, *words: object, typed: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRECOG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "precog", *map(str, words)]
    return subprocess.run(command, input=typed, capture_output=True, text=True, env=environment, timeout=120)


def test_a_fact_is_the_first_evidence_in_the_next_process(home: Path, model: Path) -> None:
    chat = ("chat", "--user", "ana", "--model", model, "--json", "--always-answer")
    told = precog(home, *chat, typed="\n".join(SAID) + "\n")
    assert told.returncode == 0, told.stderr
    first, second = map(json.loads, told.stdout.splitlines())
    assert first["evidence"] == []
    assert (first["remembered"], second["remembered"]) == (1, 2)
    assert "start" in first
    assert "start" not in second

    asked = precog(home, *chat, typed="\nWhere did my sister Clara move?\n")
    [reply] = map(json.loads, asked.stdout.splitlines())
    assert set(reply) >= {"text", "evidence", "composition", "timings_sec"}
    assert reply["evidence"][0]["text"] == SAID[0]
    assert reply["evidence"][0]["origin"] == "memory"
    assert reply["composition"]["members"] == [{"origin": "memory", "id": 1, "weight": 1.0}]
    assert reply["remembered"] is None

    of_ben = precog(home, "chat", "--user", "ben", "--model", model, "--json", typed="Where?\n")
    [other] = map(json.loads, of_ben.stdout.splitlines())
    assert other["evidence"] == []

    recalled = json.loads(precog(home, "memory", "recall", "Clara", "--user", "ana", "--json").stdout)
    assert recalled["evidence"][0]["id"] == 1
    assert recalled["fraction_searched"] == 1.0
    forgotten = precog(home, "memory", "forget", "--user", "ana", "--id", 1, "--proof", "--model", model, "--json")
    report = json.loads(forgotten.stdout)
    assert (forgotten.returncode, report["forgotten"], report["hits"]) == (0, [1], 0)
    assert report["searched_for"] > 0
    left = json.loads(precog(home, "memory", "list", "--user", "ana", "--json").stdout)
    assert [row["id"] for row in left["deposits"]] == [2]


def test_what_fails_is_told_and_the_start_comes_with_the_first_reply(home: Path, model: Path) -> None:
    chat = ("chat", "--user", "ana", "--model", model, "--json")
    ended = precog(home, *chat, typed=f"\x00\n{SAID[0]}\n{SAID[1]}\n")
    assert ended.returncode == 0
    assert "a turn has no words" in ended.stderr
    failed, first, second = map(json.loads, ended.stdout.splitlines())
    assert failed["utterance"] == "\x00"
    assert failed["error"]["code"] == "input"
    assert "start" in first
    assert "start" not in second
    nothing = precog(home, *chat)
    assert nothing.returncode == 1
    assert "there is no utterance on standard input" in nothing.stdout


def test_a_question_makes_no_folder(home: Path, model: Path) -> None:
    asked = precog(home, "chat", "--user", "ana", "--model", model, "--json", typed="Where is Clara?\n")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["evidence"] == []
    assert not home.exists()


def test_a_full_disk_does_not_end_a_conversation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answered: list[str] = []

    def answer(text: str) -> None:
        if text == "full":
            raise StorageError("the disk is full")
        answered.append(text)

    monkeypatch.setattr("sys.stdin", io.StringIO("one\nfull\ntwo\n"))
    converse("tiny", "utterance", ">", answer, as_json=True)
    assert answered == ["one", "two"]
    told = capsys.readouterr()
    assert "the disk is full" in told.err
    assert json.loads(told.out)["utterance"] == "full"

    class Broken(io.StringIO):
        broken = True

    monkeypatch.setattr("sys.stdin", io.StringIO("full\n"))
    monkeypatch.setattr("sys.stdout", Broken())
    with pytest.raises(StorageError):
        converse("tiny", "utterance", ">", answer, as_json=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chat", "--user", ""], "whose memory?"),
        (["chat", "--user", "a", "--inject", "9"], "--inject is out of range"),
        (["chat", "--user", "a", "--remember", "some"], "--remember: no such choice"),
        (["memory", "recall", "x", "--user", "nobody"], "there is no memory of this user"),
        (["memory", "remember", "--user", "a"], "what is to be remembered?"),
        (["memory", "remember", "x", "--user", "a", "--time", "25th"], "the time stamp cannot be read"),
        (["memory", "remember", "x", "--user", "a", "--alpha", "1.5"], "--alpha is out of range"),
        (["memory", "remember", "x", "--user", "a", "--dial-a", "0"], "no such setting of the K-dial"),
    ],
)
def test_what_cannot_be_is_one_line(home: Path, model: Path, words: list[str], message: str) -> None:
    options = ["--model", model] if words[1] != "recall" else []
    ended = precog(home, *words, *options)
    assert ended.returncode in (1, 2)
    [line] = ended.stderr.splitlines()
    assert message in line
