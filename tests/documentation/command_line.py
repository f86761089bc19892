"""A command line as its command understands it, without running anything."""

import shlex
from importlib import import_module

import typer
from typer.main import get_command

from precog.cli.main import COMMANDS

_HELP = {"help_option_names": ["-h", "--help"]}
_END = {"|", ">", ">>", "<", "2>", "&", "&&", ";"}


def words_of(line: str) -> list[str] | None:
    """The words of a line that calls `precog`, up to what a shell makes of the rest; None for another line."""
    line = line.removeprefix("$ ").removeprefix(".venv/bin/")
    if not line.startswith("precog "):
        return None
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in _END), len(words))
    return words[1:end]


def complaint(words: list[str], *, whole: bool) -> str | None:
    """What is wrong with a command line: no such command, no such option, or, of a whole one, any value of it.

    Args:
        words: after `precog`.
        whole: it can be typed as it stands; else words in capitals stand for others, and some may be missing.
    """
    name, *rest = words
    if name in ("--help", "--version"):
        return None
    if name not in COMMANDS:
        return f"there is no command {name}"
    command = _command(name)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-") and not rest[0].isupper():
        if rest[0] not in command.commands:
            if command.invoke_without_command or rest[0].endswith(","):
                break
            return f"{name} has no command {rest[0]}"
        command, rest = command.commands[rest[0]], rest[1:]
    known = {spelling for option in command.params for spelling in (*option.opts, *option.secondary_opts)}
    for word in rest:
        spelling = word.partition("=")[0]
        if word.startswith("-") and len(word) > 1 and spelling not in known | {"-h", "--help"}:
            return f"{name} has no option {spelling}"
    return _refusal(command, rest) if whole and not hasattr(command, "commands") else None


def _command(name: str):
    module, _, attribute = COMMANDS[name][0].partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(context_settings=_HELP)(found)
        found = app
    return get_command(found)


def _refusal(command, words: list[str]) -> str | None:
    refusals = typer.BadParameter.__mro__[2]
    try:
        command.make_context("precog", list(words))
    except refusals as refused:
        return refused.format_message()
    return None
