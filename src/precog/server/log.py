"""The server's log on stderr: what happened and how long it took, never what was asked or by whom.

One line for each request, as text or JSON. What a path, a query, a body or a header says is in none; nor is what an
exception says, since most repeat what they could not use: of a bug the log has its kind and the places it passed.
Lines of other libraries are cut down in the same way.
"""

import json
import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

LOG = logging.getLogger("precog.server")
FIELDS = "precog_fields"
"""Where a record of ours carries its fields."""
_SPOKEN = ("uvicorn.error", "asyncio")
"""Others whose first line is always words of their own."""


def set_up(log_format: Literal["text", "json"], level: str) -> None:
    """Sends everything that this process logs to stderr, in this form.

    Args:
        log_format: of lines.
        level: least one that is written.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    LOG.setLevel(level.upper())
    threading.excepthook = _told


def event(
    name: str,
    fields: Mapping[str, object] | None = None,
    *,
    level: int = logging.INFO,
    error: BaseException | None = None,
) -> None:
    """Writes one line.

    Args:
        name: what happened, in one word.
        fields: numbers, and words of ours.
        level: how grave it is.
        error: what was raised.
    """
    LOG.log(level, name, extra={FIELDS: dict(fields or {})}, exc_info=error)


def places_of(error: BaseException) -> list[str]:
    """The kinds of an exception and of what it came from, and the lines of code they passed, the innermost last."""
    found: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        frames = traceback.extract_tb(following.__traceback__)
        places = [f"{_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames[-20:]]
        found = [*places, type(following).__name__, *found]
        following = following.__cause__ or following.__context__
    return found


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        return json.dumps(_fields(record))


class TextLines(logging.Formatter):
    """``time level event name=value ...``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        fields = _fields(record)
        words = [str(fields.pop(name)) for name in ("time", "level", "event")]
        places = fields.pop("traceback", [])
        assert isinstance(places, list)
        words += [f"{name}={'-' if value in (None, '') else value}" for name, value in fields.items()]
        return "\n    ".join([" ".join(words), *places])


def _fields(record: logging.LogRecord) -> dict[str, object]:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: dict[str, object] = {"time": time, "level": record.levelname.lower()}
    if record.name == LOG.name:
        fields |= {"event": record.getMessage(), **getattr(record, FIELDS, {})}
    else:
        place = f"{_short(record.pathname)}:{record.lineno}"
        fields |= {"event": "library", "logger": record.name, "place": place}
        if record.name in _SPOKEN:
            fields["message"] = record.getMessage().split("\n", 1)[0][:200]
    if record.exc_info and record.exc_info[1] is not None:
        fields["traceback"] = places_of(record.exc_info[1])
    return fields


def _short(path: str) -> str:
    """The last folders of a file of code."""
    return "/".join(Path(path).parts[-3:])


def _told(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None and caught.exc_type is not SystemExit:
        event("bug", level=logging.ERROR, error=caught.exc_value)
