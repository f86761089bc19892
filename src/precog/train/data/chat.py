"""Conversations from JSON: chat lines, the OpenAI form, and Schema-Guided-Dialogue files with their slots.

One object a line: ``{"id", "turns": [{"speaker", "text", "time"?, "slots"?}]}``, where a slot is ``{"slot", "start",
"exclusive_end"}`` in the characters of the text; or ``{"messages": [{"role", "content"}]}``. A Schema-Guided-Dialogue
file is one JSON array of dialogues whose turns hold ``speaker``, ``utterance`` and ``frames``.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precog.errors import InputError
from precog.train.data.documents import open_lines, valid

__all__ = ["Conversation", "Slot", "Turn", "is_chat", "read_conversations"]

_FORM = '{"id", "turns": [{"speaker", "text"}]} or {"messages": [{"role", "content"}]} on every line'
_MAX_ARRAY_CHARS = 1 << 28


@dataclass(frozen=True, slots=True)
class Slot:
    """A named value: characters ``start:stop`` of its turn's text."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at once."""

    speaker: str
    text: str
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, under a name that tells conversations apart."""

    name: str
    turns: tuple[Turn, ...]


def is_chat(row: object) -> bool:
    """Whether a JSON object has the form of a conversation."""
    return isinstance(row, dict) and (
        isinstance(row.get("turns"), list) or (isinstance(row.get("messages"), list) and "text" not in row)
    )


def read_conversations(path: Path, index: int = 0, count: int = 1) -> Iterator[Conversation]:
    """Every ``count``-th conversation of a file, beginning with the ``index``-th.

    Raises:
        InputError: the file cannot be read, or holds something else than conversations.
    """
    with open_lines(path) as lines:
        first = next(lines, "")
        if first.lstrip().startswith("["):
            yield from _array(first, lines, path, index, count)
            return
        number = 0
        for line in _after(first, lines):
            if not line.strip():
                continue
            if number % count == index:
                yield _checked(_loaded(line, path), path, number)
            number += 1


def _after(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _array(first: str, lines: Iterator[str], path: Path, index: int, count: int) -> Iterator[Conversation]:
    text, size = [first], len(first)
    for line in lines:
        text.append(line)
        size += len(line)
        if size > _MAX_ARRAY_CHARS:
            raise InputError("a JSON array is too large to read at once", given=path, expected="one object per line")
    rows = _loaded("".join(text), path)
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if number % count == index:
            yield _checked(row, path, number)


def _loaded(text: str, path: Path) -> object:
    try:
        row: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("a file of conversations is no JSON", given=f"{path}: {error}", expected=_FORM) from error
    return row


def _checked(row: object, path: Path, number: int) -> Conversation:
    try:
        return _conversation(row, f"{path.name}/{number}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            "a file of conversations has an object of another form",
            given=f"{path}: object {number + 1}: {_reason(error)}",
            expected=_FORM,
        ) from error


def _reason(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def _conversation(row: object, name: str) -> Conversation:
    if not isinstance(row, Mapping) or not is_chat(row):
        raise TypeError("no turns")
    said: list[tuple[object, object, list[dict[str, Any]]]]
    if "messages" in row and "turns" not in row:
        said = [(m["role"], m["content"], []) for m in row["messages"] if not _is_call(m)]
    elif any("utterance" in turn for turn in row["turns"]):
        said = [
            (t["speaker"], t["utterance"], [slot for frame in t.get("frames", ()) for slot in frame.get("slots", ())])
            for t in row["turns"]
        ]
    else:
        said = [(t["speaker"], t["text"], list(t.get("slots", ()))) for t in row["turns"]]
    turns = []
    for speaker, text, slots in said:
        words = _text(text, "a turn's text")
        found = [_slot(slot) for slot in slots if "start" in slot]
        kept = tuple(slot for slot in found if 0 <= slot.start < slot.stop <= len(words))
        turns.append(Turn(_text(speaker, "a speaker"), words, kept))
    return Conversation(valid(str(row.get("id", row.get("dialogue_id", name)))), tuple(turns))


def _is_call(message: Mapping[str, object]) -> bool:
    """Whether a message says nothing because it calls a tool."""
    return message["content"] is None and ("tool_calls" in message or "function_call" in message)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {type(value).__name__}, not text")
    return valid(value)


def _slot(slot: Mapping[str, object]) -> Slot:
    start, stop = slot["start"], slot["exclusive_end"]
    if type(start) is not int or type(stop) is not int:
        raise TypeError(f"a slot from {start!r} to {stop!r}, no numbers of characters")
    return Slot(_text(slot["slot"], "a slot's name"), start, stop)
