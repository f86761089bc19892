"""JSON and JSON Lines ▸ one block per record, one per turn where a record is a conversation."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import StringIO

from precog.errors import DocumentError
from precog.text.document import Draft

_MAX_VALUE_CHARS = 1 << 26
_SPEAKERS = ("role", "speaker", "from", "author", "name", "sender", "user")
_UTTERANCES = ("content", "text", "value", "message", "utterance", "body")
_CONVERSATIONS = ("messages", "conversations", "conversation", "turns", "dialog", "dialogue", "chat")


def json_lines(lines: Iterable[str]) -> Iterator[Draft]:
    """Reads one JSON value per line; blank lines are allowed.

    Raises:
        DocumentError: a line is no JSON value, or is longer than 64 M characters.
    """
    buffer = StringIO()
    for number, line in enumerate(_whole_lines(lines, buffer), start=1):
        if line.strip():
            yield from _record(_parse(line, f"line {number}"))


def json_text(lines: Iterable[str]) -> Iterator[Draft]:
    """Reads one JSON value; the elements of an outermost array are read one by one.

    Raises:
        DocumentError: it is malformed, or a value other than that array is longer than 64 M characters.
    """
    window = _Window(lines)
    if window.peek() == "[":
        window.take()
        yield from _elements(window)
    else:
        value = window.value()
        if _is_conversation(value) or not isinstance(value, dict):
            yield from _record(value)
        else:
            yield from _sections(value)
    if window.peek():
        raise DocumentError("it is malformed JSON: more text after its value", given=window.where())


class _Window:
    """The unread rest of a JSON text, read on as far as the next value needs."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._text = ""
        self._at = 0
        self._passed_chars = 0
        self._decode: Callable[[str, int], tuple[object, int]] = json.JSONDecoder().raw_decode

    def where(self) -> str:
        return f"character {self._passed_chars + self._at}"

    def _more(self, wanted_chars: int) -> bool:
        parts = []
        num_chars = 0
        for line in self._lines:
            parts.append(line)
            num_chars += len(line)
            if num_chars >= wanted_chars:
                break
        self._passed_chars += self._at
        self._text = self._text[self._at :] + "".join(parts)
        self._at = 0
        return bool(parts)

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in " \t\n\r":
                    return self._text[self._at]
                self._at += 1
            if not self._more(1 << 16):
                return ""

    def take(self) -> None:
        self._at += 1

    def value(self) -> object:
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                num_chars = end - self._at
                if end < len(self._text) or not self._more(1):  # at the end of what was read a number may go on
                    self._at += num_chars
                    return value
            except RecursionError as error:
                raise DocumentError("it is JSON nested too deeply", given=self.where()) from error
            except ValueError as error:
                unread = len(self._text) - self._at
                if unread > _MAX_VALUE_CHARS:
                    raise DocumentError(
                        "one JSON value is too large", given=self.where(), hint="write one value per line (.jsonl)"
                    ) from error
                if not self._more(max(1 << 16, unread)):
                    reason = getattr(error, "msg", str(error))
                    raise DocumentError(f"it is malformed JSON: {reason}", given=self.where()) from error


def _elements(window: _Window) -> Iterator[Draft]:
    if window.peek() == "]":
        window.take()
        return
    while True:
        yield from _record(window.value())
        separator = window.peek()
        window.take()
        if separator == "]":
            return
        if separator != ",":
            raise DocumentError("it is malformed JSON: expected ',' or ']'", given=window.where())


def _whole_lines(pieces: Iterable[str], buffer: StringIO) -> Iterator[str]:
    """Joins the pieces of long lines again."""
    for piece in pieces:
        buffer.write(piece)
        if buffer.tell() > _MAX_VALUE_CHARS:
            raise DocumentError("one line is too long for a JSON value", expected="at most 64 M characters")
        if piece.endswith("\n"):
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    if buffer.tell():
        yield buffer.getvalue()


def _parse(text: str, where: str) -> object:
    try:
        value: object = json.loads(text)
    except RecursionError as error:
        raise DocumentError("it is JSON nested too deeply", given=where) from error
    except ValueError as error:
        raise DocumentError(f"it is malformed JSON: {getattr(error, 'msg', error)}", given=where) from error
    return value


def _record(value: object) -> Iterator[Draft]:
    turn = _turn(value)
    if turn is not None:
        yield turn
        return
    if isinstance(value, dict):
        for key in _CONVERSATIONS:
            turns = value.get(key)
            if isinstance(turns, list) and turns and all(_turn(entry) is not None for entry in turns):
                rest = {name: entry for name, entry in value.items() if name != key}
                if rest:
                    yield _paragraph(rest)
                yield from (draft for entry in turns if (draft := _turn(entry)) is not None)
                return
    if isinstance(value, list) and value and all(_turn(entry) is not None for entry in value):
        yield from (draft for entry in value if (draft := _turn(entry)) is not None)
        return
    yield _paragraph(value)


def _sections(value: Mapping[str, object]) -> Iterator[Draft]:
    """The members of an outermost object: long lists element by element, the rest together."""
    small = {key: entry for key, entry in value.items() if not (isinstance(entry, list) and _holds_objects(entry))}
    if small:
        yield _paragraph(small)
    for key, entry in value.items():
        if key not in small and isinstance(entry, list):
            yield Draft(f"{key}\n", kind="heading", level=1, title=key)
            for element in entry:
                yield from _record(element)


def _holds_objects(value: list[object]) -> bool:
    return any(isinstance(element, dict | list) for element in value)


def _is_conversation(value: object) -> bool:
    return _turn(value) is not None or (isinstance(value, dict) and any(key in value for key in _CONVERSATIONS))


def _turn(value: object) -> Draft | None:
    """A turn of a conversation, ``speaker: words``, if the value is one."""
    if not isinstance(value, dict):
        return None
    speaker = next((value[key] for key in _SPEAKERS if isinstance(value.get(key), str)), None)
    words = next((text for key in _UTTERANCES if (text := _words(value.get(key))) is not None), None)
    if not isinstance(speaker, str) or words is None:
        return None
    lead = " ".join(speaker.split())[:100] + ":"
    return Draft(f"{lead} {words.strip()}\n\n", kind="turn", lead=lead)


def _words(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        texts = [part.get("text") if isinstance(part, dict) else part for part in value]
        if any(isinstance(text, str) for text in texts):
            return "\n".join(text for text in texts if isinstance(text, str))
    return None


def _paragraph(value: object) -> Draft:
    return Draft("\n".join(_flat(value, "")) + "\n\n")


def _flat(value: object, key: str) -> Iterator[str]:
    """``outer.inner: value`` lines; list elements share their list's name."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from _flat(entry, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        if any(isinstance(entry, dict | list) for entry in value):
            for entry in value:
                yield from _flat(entry, key)
        elif value:
            yield _line(key, ", ".join(map(_scalar, value)))
    elif value is not None:
        yield _line(key, _scalar(value))


def _line(key: str, text: str) -> str:
    return f"{key}: {text}" if key else text


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
