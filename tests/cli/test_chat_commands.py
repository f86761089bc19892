"""Commands of ``precog chat``: the same typed and piped; never deposited."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from ended import Run

FACTS = ["My sister Clara moved to Lisbon in March.", "The car stands on level three of the garage."]


@pytest.fixture
def chat(tmp_path: Path, model: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path / "home"))

    def talk(*lines: str, typed: bool = False, as_json: bool = True):
        stream = io.StringIO("".join(line + "\n" for line in lines))
        monkeypatch.setattr(stream, "isatty", lambda: typed)
        monkeypatch.setattr("sys.stdin", stream)
        return run("chat", "--user", "ana", "--model", model, *(["--json"] if as_json else []))

    return talk


def objects(ended: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


def remembered(run: Run) -> list[str]:
    return [row["text"] for row in run("memory", "list", "--user", "ana", "--json").json["deposits"]]


@pytest.mark.parametrize("typed", [False, True])
def test_what_was_said_last_is_forgotten_and_the_rest_stays(chat, run: Run, typed: bool) -> None:
    ended = chat(*FACTS, "/forget", "/list", "/forget", "/forget", "/list", "/quit", "never said", typed=typed)
    assert ended.status == 0
    _, _, gone, left, last, refused, none = objects(ended)
    assert (gone["command"], gone["forgotten"]) == ("/forget", [2])
    assert [row["text"] for row in left["deposits"]] == FACTS[:1]
    assert refused["error"]["code"] == "usage"
    assert last["utterance"] == refused["utterance"] == "/forget"
    assert [row["text"] for row in none["deposits"]] == FACTS[:1]
    assert ("/help tells the commands" in ended.err) == typed
    assert remembered(run) == FACTS[:1]


def test_deposits_are_forgotten_by_number(chat, run: Run) -> None:
    assert chat(*FACTS).status == 0
    ended = chat("Where did Clara move?", "/list 1", "/forget 9", "/forget 1", "Where did Clara move?")
    before, listed, missing, gone, after = objects(ended)
    assert before["evidence"][0]["text"] == FACTS[0]
    assert [row["id"] for row in listed["deposits"]] == [2]
    assert "no such deposit" in missing["error"]["message"]
    assert gone["forgotten"] == [1]
    assert [entry["id"] for entry in after["evidence"]] == [2]
    assert remembered(run) == FACTS[1:]
    report = run("memory", "forget", "--user", "ana", "--id", 2, "--proof", "--json").json
    assert (report["forgotten"], report["hits"]) == ([2], 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/", "there is no such command"),
        ("/Forget", "there is no such command"),
        ("/exit", "there is no such command"),
        ("/forget all", "/forget takes numbers"),
        ("/forget 0", "/forget takes numbers"),
        ("/forget ٣", "/forget takes numbers"),
        ("/forget", "nothing of this conversation is remembered"),
        ("/forget 3", "there is no such deposit"),
        ("/list 1 2", "/list takes one number"),
        ("/quit now", "/quit stands alone"),
        ("/supersede 1", "/supersede takes two numbers"),
        ("/supersede 1 2", "there is no such deposit"),
    ],
)
def test_what_is_no_command_is_one_line_and_is_not_deposited(chat, tmp_path: Path, line: str, message: str) -> None:
    ended = chat(line, as_json=False)
    assert (ended.status, ended.out) == (0, "")
    [said] = ended.err.splitlines()
    assert message in said
    assert not (tmp_path / "home").exists()


def test_people_are_told_in_words(chat, run: Run) -> None:
    told = chat("/help", "/list", FACTS[0], "/list", "/forget", "/quit", as_json=False)
    assert (told.status, told.err) == (0, "")
    for words in ("/forget [N …]", "ends, as Ctrl-D does", "nothing is remembered yet", "forgotten 1 deposit: 1"):
        assert words in told.out
    assert told.out.count(FACTS[0]) == 2  # as said, and as listed
    assert remembered(run) == []
    [shown] = objects(chat("/help"))
    assert set(shown["commands"]) == {"/help", "/list [N]", "/forget [N …]", "/supersede OLD NEW", "/quit", "//…"}


def test_two_slashes_say_one(chat, run: Run) -> None:
    assert chat("//tmp is where the plan lies.").status == 0
    assert remembered(run) == ["/tmp is where the plan lies."]


def test_a_turn_of_many_parts_is_forgotten_whole(chat, run: Run) -> None:
    long = " ".join(f"Number {n} of the long list is a {word}." for n in range(60) for word in ("boat", "house"))
    first, second, gone = objects(chat(FACTS[0], long, "/forget"))
    assert (first["remembered"], second["remembered"]) == (1, 2)
    assert len(gone["forgotten"]) > 2
    assert remembered(run) == FACTS[:1]


def test_what_no_longer_holds_is_superseded_in_the_conversation(chat, run: Run) -> None:
    told = chat("I live in Zurich.", "I live in Bern now.", "/supersede 1 2", "/supersede 1 2", "Where do I live?")
    *_, done, refused, reply = objects(told)
    assert done == {"command": "/supersede", "superseded": 1, "by": 2}
    assert "superseded by 2 already" in refused["error"]["message"]
    assert [entry["id"] for entry in reply["evidence"]] == [2]
    assert run("memory", "show", 1, "--user", "ana", "--json").json["superseded_by"] == 2
