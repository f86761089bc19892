"""Files of questions: rows with their place in the file, and fields that say what is wrong with them.

A file is JSON lines, or one JSON list of objects; either may be gzipped. JSON lines are read one at a time, because the
official file of Natural Questions is larger than most memories.
"""

import gzip
import json
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import NoReturn

from precog.errors import InputError

__all__ = ["Row", "read_rows", "whole_file"]

_SHOWN_CHARS = 60


@dataclass(frozen=True)
class Row:
    """One object of a file.

    Attributes:
        path: of the file.
        line: where it begins, from 1; 0 for the whole file.
        values: its fields.
        kind: what the file should be, for errors, such as "a HotpotQA file".
        where: the fields that lead to it, for an object inside of another, such as ``annotations[0].``.
    """

    path: Path
    line: int
    values: Mapping[str, object]
    kind: str
    where: str = ""

    def refuse(self, field: str, expected: str, *, given: object = None) -> NoReturn:
        """Raises the one line that names file, line and field.

        Raises:
            InputError: always.
        """
        line = f", line {self.line}" if self.line else ""
        message = f"this is not {self.kind}: {self.path}{line}, field {self.where}{field}"
        raise InputError(message, given=_short(given), expected=expected)

    def text(self, field: str, *, may_be_empty: bool = False) -> str:
        """A field that holds text.

        Raises:
            InputError: it is missing or no text, or empty.
        """
        value = self.values.get(field)
        if not isinstance(value, str) or not (value.strip() or may_be_empty):
            self.refuse(field, "a text", given=self._given(field))
        return value

    def number(self, field: str) -> int:
        """A field that holds a whole number.

        Raises:
            InputError: it is missing or no whole number.
        """
        value = self.values.get(field)
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(field, "a whole number", given=self._given(field))
        return value

    def texts(self, field: str) -> list[str]:
        """A field that holds a list of texts, which may be empty.

        Raises:
            InputError: it is missing, no list, or something in it is no text.
        """
        value = self.values.get(field)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            self.refuse(field, "a list of texts", given=self._given(field))
        return value

    def items(self, field: str) -> list[object]:
        """A field that holds a list of anything.

        Raises:
            InputError: it is missing or no list.
        """
        value = self.values.get(field)
        if not isinstance(value, list):
            self.refuse(field, "a list", given=self._given(field))
        return value

    def objects(self, field: str) -> list["Row"]:
        """A field that holds a list of objects.

        Raises:
            InputError: it is missing, no list, or something in it is no object.
        """
        rows = []
        for index, entry in enumerate(self.items(field)):
            if not isinstance(entry, dict):
                self.refuse(f"{field}[{index}]", "an object", given=entry)
            rows.append(Row(self.path, self.line, entry, self.kind, f"{self.where}{field}[{index}]."))
        return rows

    def inner(self, field: str) -> "Row":
        """A field that holds an object.

        Raises:
            InputError: it is missing or no object.
        """
        value = self.values.get(field)
        if not isinstance(value, dict):
            self.refuse(field, "an object", given=self._given(field))
        return Row(self.path, self.line, value, self.kind, f"{self.where}{field}.")

    def _given(self, field: str) -> object:
        return self.values[field] if field in self.values else _Missing()


class _Missing:
    def __repr__(self) -> str:
        return "no such field"


def _short(value: object) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, _Missing):
        return repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def read_rows(path: Path, kind: str) -> Iterator[Row]:
    """The objects of a file, in its order.

    Args:
        path: JSON lines, or one JSON list of objects; gzip allowed.
        kind: what the file should be, for errors, such as "a HotpotQA file".

    Raises:
        InputError: the file cannot be read or unpacked, is no UTF-8, or something in it is no JSON object.
    """
    with _opened(path) as file:
        yield from _rows(file, path, kind)


def whole_file(path: Path, kind: str) -> Row | None:
    """The object that a file is as a whole, on one line or on several; None for JSON lines, or a list of objects.

    Args:
        path: gzip allowed.
        kind: as of `read_rows`.

    Raises:
        InputError: the file cannot be read or unpacked, or is neither.
    """
    with _opened(path) as file:
        first = next((line for line in file if line.strip()), b"")
        try:
            value = json.loads(first.decode("utf-8-sig"))
            if any(line.strip() for line in file):
                return None  # more than one: lines, of which each is told apart
        except (ValueError, RecursionError):  # an object over several lines, or what the rows will tell
            if not first.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
                return None
            value = _parsed(_decoded(first + file.read(), path, 1, kind).removeprefix("\ufeff"), path, 1, kind)
        if not isinstance(value, dict) or "id" in value:
            return None
        return Row(path, 0, _object(value, path, 1, kind), kind)


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # a pipe gives its bytes once, a device forever
            raise InputError("the question file is a pipe or a device", given=path, expected="a file")
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        hint = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError("the question file cannot be read", given=path, hint=hint) from error


def _rows(file: BufferedIOBase, path: Path, kind: str) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        text = _decoded(line, path, number, kind)
        if number == 1:
            text = text.removeprefix("\ufeff")
        if not text.strip():
            continue
        if text.lstrip().startswith("["):
            rest = _decoded(file.read(), path, number, kind)
            yield from _listed(text + rest, path, number, kind)
            return
        yield Row(path, number, _object(_parsed(text, path, number, kind), path, number, kind), kind)


def _listed(text: str, path: Path, first_line: int, kind: str) -> Iterator[Row]:
    """The objects of a JSON list, each with the line it begins on."""
    decoder = json.JSONDecoder()
    position, line, counted = text.index("[") + 1, first_line, 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        line += text.count("\n", counted, position)
        counted = position
        if text[position : position + 1] == "]":
            rest = text[position + 1 :]
            if rest.strip():
                line += rest[: len(rest) - len(rest.lstrip())].count("\n")
                raise InputError(f"this is not {kind}: {path}, line {line} goes on after the list's end")
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise InputError(f"this is not {kind}: {path}, line {line} is no JSON", hint=_cause(error)) from error
        yield Row(path, line, _object(value, path, line, kind), kind)


def _decoded(line: bytes, path: Path, number: int, kind: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"this is not {kind}: {path}, line {number} is no UTF-8") from error


def _parsed(text: str, path: Path, number: int, kind: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        within = error.lineno - 1 if isinstance(error, json.JSONDecodeError) else 0
        message = f"this is not {kind}: {path}, line {number + within} is no JSON"
        raise InputError(message, hint=_cause(error)) from error
    return value


def _cause(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


def _object(value: object, path: Path, line: int, kind: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"this is not {kind}: {path}, line {line}", given=_short(value), expected="a JSON object")
    if not _is_unicode(value):
        message = f"this is not {kind}: {path}, line {line} holds half of a surrogate pair"
        raise InputError(message, expected="text that UTF-8 can carry")
    return value


def _is_unicode(value: object) -> bool:
    """Whether every text within can be written: JSON's escapes can name halves of characters, no file holds them."""
    left = [value]
    while left:
        match left.pop():
            case str(text):
                try:
                    text.encode()
                except UnicodeEncodeError:
                    return False
            case dict(fields):
                left += [*fields, *fields.values()]
            case list(entries):
                left += entries
    return True
