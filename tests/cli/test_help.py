"""Help of every command: nothing of it is taken for markup and swallowed."""

import re
from collections.abc import Iterator
from importlib import import_module

import pytest
import typer
from typer.main import get_command

from precog.cli.main import COMMANDS

_MARKUP = re.compile(r"(?<!\\)\[[a-z#/@]")


def commands_of(name: str) -> Iterator[typer.core.TyperCommand]:
    module, _, attribute = COMMANDS[name][0].partition(":")
    made = getattr(import_module(module), attribute)
    if not isinstance(made, typer.Typer):
        alone = typer.Typer()
        alone.command()(made)
        made = alone
    waiting = [get_command(made)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        yield command  # type: ignore[misc]  # a group is one, too


@pytest.mark.parametrize("name", COMMANDS)
def test_brackets_are_escaped(name: str) -> None:
    for command in commands_of(name):
        for words in [command.help, *(getattr(param, "help", None) for param in command.params)]:
            assert not _MARKUP.search(words or ""), words
