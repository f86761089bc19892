"""JSON and JSON lines ▸ their values, each with the place it stands at."""

import json

from precog.errors import InputError


def rows_of(text: str) -> list[tuple[str, object]] | None:
    """The values of JSON lines, or the elements of one JSON array, or the one object; None if it is no JSON at all.

    Returns:
        ("line 3" or "entry 3", value) pairs; entries count from 1.

    Raises:
        InputError: it begins as JSON and is malformed.
    """
    start = text.lstrip()
    if not (start.startswith("{") or (start.startswith("[") and start[1:].lstrip()[:1] in ("{", "[", "]", '"'))):
        return None
    if start.startswith("{"):
        first_line = start.split("\n", 1)[0]
        try:
            json.loads(first_line)
        except (ValueError, RecursionError):
            if _is_whole(first_line):  # a faulty line, not the opening of an object printed over several
                return _lines(text)
        else:
            return _lines(text)
    value = parsed(text, "")
    if isinstance(value, list):
        return [(f"entry {number}", entry) for number, entry in enumerate(value, 1)]
    return [("", value)]


def _is_whole(line: str) -> bool:
    line = line.strip()
    return len(line) > 2 and line.endswith("}")


def _lines(text: str) -> list[tuple[str, object]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            rows.append((f"line {number}", parsed(line, f"line {number}")))
    return rows


def parsed(text: str, where: str) -> object:
    """A value of JSON that stands ``where``.

    Raises:
        InputError: it is malformed or nested too deeply.
    """
    try:
        value: object = json.loads(text)
    except RecursionError as error:
        raise InputError(f"{where}: JSON nested too deeply".removeprefix(": ")) from error
    except json.JSONDecodeError as error:
        raise InputError(f"{where or f'line {error.lineno}'}: malformed JSON: {error.msg}") from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{where}: malformed JSON: {error}".removeprefix(": ")) from error
    return value


def text_in(value: object) -> str | None:
    """The words of a value: a string, or a list of strings and of objects with "text"; None if it is neither."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in value]
        return "\n".join(text for text in texts if isinstance(text, str))
    return None


def name_in(value: object) -> str | None:
    """A name or an id: a string, a whole number, or an object with a "name" or "role"; None if it is nothing of it."""
    if isinstance(value, dict):
        value = value.get("name") or value.get("role")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None
