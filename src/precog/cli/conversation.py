"""Line after line of standard input, each answered as it comes: the prompt that `ask` and `chat` share."""

import sys
from collections.abc import Callable

from precog.cli.output import err, print_json, shown
from precog.cli.streams import check_line, lines_of_input, readable
from precog.errors import InputError, PrecogError, StorageError


def is_interactive() -> bool:
    """Whether somebody types."""
    return sys.stdin is not None and sys.stdin.isatty()


def converse(
    model: str, noun: str, prompt: str, answer: Callable[[str], bool | None], *, as_json: bool, more: str = ""
) -> None:
    """Answer until the end of input; a line that fails is told and does not end it.

    Args:
        model: that is ready.
        noun: what a line is, "question" or "utterance"; the key of what failed in JSON.
        prompt: one character before what is typed.
        answer: called with every line that is not empty; True ends the conversation.
        as_json: print failures as JSON, too.
        more: told with how it ends, to whom types.

    Raises:
        InputError: nothing came.
        StorageError: there is nowhere to write answers to; a disk that is full for a memory is told like any failure.
    """
    lines = lines_of_input()
    interactive = is_interactive()
    if interactive:
        err.print(f"[bold]{shown(model)}[/] is ready; an empty line or Ctrl-D ends{shown(more)}.")
    has_come = False
    while True:
        if interactive:
            err.print(f"[bold cyan]{prompt}[/] ", end="")
        line = next(lines, "")
        text = line.strip()
        if not line or (interactive and not text):
            break
        if not text:
            continue
        has_come = True
        try:
            check_line(line)
            if answer(text):
                break
        except PrecogError as error:
            if isinstance(error, StorageError) and getattr(sys.stdout, "broken", False):
                raise
            err.print(f"precog: {shown(' '.join(str(error).split()))}")
            if as_json:
                print_json({noun: readable(text), "error": error.to_json()})
    if not has_come and not interactive:
        raise InputError(f"there is no {noun} on standard input", expected=f"{noun}s, one a line")
