"""Transcripts for the eye: lines of "Ana: hello", with or without a time stamp before the name."""

import datetime
import re
from collections.abc import Sequence

from precog.errors import InputError
from precog.memory.moment import parse_time
from precog.memory.transcript.transcript import Collector

_NAMED = re.compile(r"([^\W\d_][^\n:<>\[\]{}()\"|]{0,59}?)\s*:(?:\s+|$)(.*)", re.DOTALL)
_BRACKETED = re.compile(r"\s*\[([^\]\n]*\d[^\]\n]*)\]\s*(.*)", re.DOTALL)
_STAMPED = re.compile(
    r"\s*(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|\s?[+-]\d\d:?\d\d)?)?)(?:\s+-)?\s+(\S.*)", re.DOTALL
)
_MOST_WORDS = 5
_SENTENCE_END = re.compile(r"[.!?…]\s|[,;]")


def is_plain(lines: Sequence[str]) -> bool:
    """Whether the first line that is not blank opens a turn."""
    first = next((line for line in lines if line.strip()), "")
    return _stamped(first) is not None or named(first) is not None


def named(line: str) -> tuple[str, str] | None:
    """The speaker and the words of a line ``Ana: hello``; None if it opens no turn."""
    match = _NAMED.fullmatch(line.lstrip())
    if match is None:
        return None
    speaker = match[1].strip()
    if len(speaker.split()) > _MOST_WORDS or _SENTENCE_END.search(speaker.replace(". ", " ", 1)):
        return None
    return speaker, match[2]


def read_plain(lines: Sequence[str], collector: Collector, zone: datetime.tzinfo | None) -> None:
    """Takes the turns; a line that opens none belongs to the turn before it.

    Where the first turn has a time stamp every turn has: then "Note: buy milk" on a line of its own opens none.

    Raises:
        InputError: a time stamp cannot be read; its line is named.
    """
    first = next(line for line in lines if line.strip())
    with_stamps = _stamped(first) is not None
    turn: tuple[datetime.datetime | None, str | None] = (None, None)
    words: list[str] = []

    def finish() -> None:
        if words:
            collector.add("\n".join(words), *turn)
            words.clear()

    for number, line in enumerate(lines, 1):
        opened = _stamped(line)
        if opened is not None:
            stamp, speaker, rest = opened
            try:
                time = parse_time(stamp, zone=zone)
            except InputError as error:
                message = f"line {number}: {error.message}"
                raise InputError(message, given=error.given, expected=error.expected) from error
            finish()
            turn = (time, speaker)
            words.append(rest)
            continue
        plain = None if with_stamps else named(line)
        if plain is not None:
            finish()
            turn = (None, plain[0])
            words.append(plain[1])
        elif words:
            words.append(line)
    finish()


def _stamped(line: str) -> tuple[str, str | None, str] | None:
    """The time stamp, the speaker and the words of a line that opens with a time stamp; None if it does not."""
    bracketed = _BRACKETED.fullmatch(line)
    if bracketed is not None:
        opened = named(bracketed[2])
        if opened is not None:  # without a name, "[3 people laugh]" is no time stamp
            return bracketed[1], opened[0], opened[1]
    match = _STAMPED.fullmatch(line) if bracketed is None else None
    opened = None if match is None else named(match[2])
    if match is None or opened is None:
        return None
    return match[1].replace(",", "."), opened[0], opened[1]
