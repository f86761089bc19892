"""Help of ``precog memory`` and ``precog chat``: every option says in a sentence what it means."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from ended import Run

from precog.cli.chat import chat
from precog.cli.memory import app


def commands() -> Iterator[tuple[str, typer.core.TyperCommand]]:
    alone = typer.Typer(add_completion=False)
    alone.command()(chat)
    for made in (app, alone):
        group = typer.main.get_command(made)
        yield from getattr(group, "commands", {"chat": group}).items()


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda entry: entry if isinstance(entry, str) else ""
)
def test_every_option_is_a_sentence(name: str, command: typer.core.TyperCommand) -> None:
    assert command.help
    for param in command.params:
        words = getattr(param, "help", "") or ""
        said = words.partition("  \\[")[0]
        assert said.endswith("."), f"{name} {param.name}: {words}"
        assert said[0].isupper(), f"{name} {param.name}: {words}"
        assert len(said.split()) >= 3, f"{name} {param.name}: {words}"


def test_a_list_marks_what_something_newer_holds_instead_of(
    tmp_path: Path, model: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path))
    for text in ("Clara lives in Lisbon.", "Clara lives in Porto.", "The car is in the garage."):
        assert run("memory", "remember", text, "--user", "a", "--model", model).status == 0
    assert run("memory", "supersede", 1, 2, "--user", "a").status == 0
    first, second, third = run("memory", "list", "--user", "a").out.splitlines()
    assert first.endswith("superseded by 2")
    assert "superseded" not in second + third
    rows = run("memory", "list", "--user", "a", "--json").json["deposits"]
    assert [row["superseded_by"] for row in rows] == [2, None, None]
    shown = run("memory", "show", 1, "--user", "a").out
    assert "superseded by  2" in shown
    assert "None" not in shown
    again = run("memory", "supersede", 1, 3, "--user", "a")
    assert (again.status, len(again.err.splitlines())) == (1, 1)
    assert "superseded by 2 already" in again.err

    nobody = run("memory", "list", "--user", "a", "--speaker", "Bo")
    assert (nobody.status, nobody.out) == (0, "nothing that is remembered fits; speakers: nobody is noted\n")
    for domain in ("nope", ""):
        assert "there is no such domain" in run("memory", "list", "--user", "a", "--domain", domain).err
    gone = run("memory", "forget", "--speaker", "Bo", "--proof", "--user", "a", "--model", model)
    assert gone.status == 1
    assert "nothing that is remembered fits; given: --speaker Bo; expected: a speaker that there is: nobody" in gone.err
    told = run("memory", "forget", "--all", "--user", "a", "--model", model)
    assert "  1  Clara lives in Lisbon.\n  2  Clara lives in Porto.\n" in told.out
    assert run("memory", "list", "--user", "a").out == "nothing is remembered\n"
    assert run("memory", "recall", "Clara", "--user", "a").out == "nothing is remembered that holds\n"


def test_a_conversation_comes_from_standard_input_and_its_groups_are_told(
    tmp_path: Path, model: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Ana: Grüße\nBo: hello\nBo: ?\n".encode())))
    ended = run("memory", "remember", "--file", "-", "--user", "a", "--model", model, "--json")
    assert ended.json["ids"] == [1, 2]
    assert [len(group) for group in ended.json["groups"]] == [2, 2]
    assert "1 turn without words skipped" in ended.err
    rows = run("memory", "list", "--user", "a", "--json").json["deposits"]
    assert [row["text"] for row in rows] == ["Grüße", "hello"]
    assert [[row["domain"], row["subcluster"]] for row in rows] == ended.json["groups"]
    for words, message in (
        (("",), "a turn has no words"),
        (("x", "--time", ""), 'given: --time ""'),
        (("x", "--speaker", "A\udcff"), "the speaker is not valid Unicode"),
    ):
        refused = run("memory", "remember", *words, "--user", "a", "--model", model)
        assert message in refused.err
        assert len(refused.err.splitlines()) == 1
    assert "forgotten 1 deposit" in run("memory", "forget", "--id", 1, "--user", "a", "--model", model).out


def test_a_home_that_is_a_file_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECOG_HOME", "/dev/null")
    ended = run("memory", "list", "--user", "a")
    assert ended.status == 2
    assert "given: /dev/null (PRECOG_HOME says so); expected: a folder; set PRECOG_HOME" in ended.err


def test_the_formats_are_named_in_the_help(run: Run) -> None:
    told = " ".join(run("memory", "remember", "--help").out.replace("│", " ").split())
    for name in ("WhatsApp", "ChatGPT", "SRT", "LoCoMo", "standard input (-)"):
        assert name in told
