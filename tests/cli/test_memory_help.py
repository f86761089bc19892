"""Help of ``precog memory`` and ``precog chat``: every option says in a sentence what it means."""

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
    assert "superseded by  2" in run("memory", "show", 1, "--user", "a").out
