"""Errors of the layers below, in the words of a request: fields for flags, names for folders, no command lines.

Flags, commands and paths are reworded in one place, `failure.body_of`; who knows the folder that something is about
says what it is called.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precog.errors import (
    AccessError,
    CorpusError,
    EncoderError,
    LimitError,
    MissingError,
    ModelError,
    PrecogError,
    StateError,
    StorageError,
    UsageError,
)

_FLAG = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
_FIELDS = {"id": "ids", "budget": "budget_bytes"}
"""Fields that are not called as their flag is."""
_PATH = re.compile(r"(?<![\w/.:])/(?:[^\s/;,:]+/)+([^\s/;,:]+)")
_PROCESS = re.compile(r", process \w+")
_COMMAND = re.compile(r"\bprecog [a-z]|--(?:corpus|device|dtype|encoder|model|template|threads|user)\b")
"""Something to type where the server runs, or a flag that no field of a request stands for."""
_INSTEAD = (
    ("run `precog memory forget", "send the same request again: it goes on for all of them"),
    ("precog memory import", "POST /v1/memories/me/import takes it"),
    ("precog memory export", "what GET /v1/memories/me/export answers"),
    ("see `precog memory list`", "GET /v1/memories/me/deposits lists them"),
    ("see `precog list`", "GET /v1/corpora/{name}/documents lists them"),
    ("remember something first", "remember something first: POST /v1/memories/me/deposits"),
)
_ABOUT_THE_SERVER = (AccessError, LimitError)
"""Raised by the server alone, and about it: what they tell to type helps whoever runs it."""
_OWN_PATHS = (CorpusError, EncoderError, ModelError, StateError, StorageError)
"""Errors whose paths are the server's; those of other errors are what somebody asked for."""


def reworded(error: PrecogError, folder: Path | None = None, name: str = "") -> PrecogError:
    """The same error for somebody who sent a request.

    Args:
        error: as it was raised.
        folder: of a corpus or a memory, called by its name instead.
        name: of it.
    """
    if isinstance(error, _ABOUT_THE_SERVER):
        return error
    told = error.__class__.__new__(error.__class__)  # whatever its class is made with
    vars(told).update(vars(error))

    def placed(text: str | None) -> str | None:
        if text is None:
            return None
        if folder is not None:
            text = text.replace(str(folder), name)
        return _PATH.sub(r"\1", _PROCESS.sub("", text)) if isinstance(error, _OWN_PATHS) else text

    told.message = _fields(placed(error.message)) or ""
    told.given = placed(error.given)
    if isinstance(error, UsageError):  # else it is somebody's own word, and may begin with dashes
        told.given = _fields(told.given)
    told.expected = _fields(_instead(placed(error.expected)))
    told.hint = _instead(placed(error.hint))
    told.hint = None if told.hint is None or _COMMAND.search(told.hint) else _fields(told.hint)
    return told


def without_flags(text: str) -> str:
    """The same with fields of a request where it names flags."""
    return _fields(text) or ""


@contextmanager
def in_requests_words(folder: Path, name: str) -> Iterator[None]:
    """Calls a corpus by its name in what the block raises; what goes wrong because it is gone is told as that."""
    try:
        yield
    except PrecogError as error:
        if isinstance(error, CorpusError | StateError) and not folder.exists():
            hint = "GET /v1/corpora lists yours"
            raise MissingError("this corpus was deleted meanwhile", given=name, hint=hint) from error
        raise reworded(error, folder, name) from error


@contextmanager
def called(folder: Path, name: str) -> Iterator[None]:
    """Calls a folder by a name in what the block raises."""
    try:
        yield
    except PrecogError as error:
        raise reworded(error, folder, name) from error


def _fields(text: str | None) -> str | None:
    def field(flag: re.Match[str]) -> str:
        return _FIELDS.get(flag[1], flag[1].replace("-", "_"))

    return None if text is None else _FLAG.sub(field, text)


def _instead(text: str | None) -> str | None:
    """What leads on here, where there is a command to type."""
    if text is None:
        return None
    found = next((instead for part, instead in _INSTEAD if part in text), text)
    return found.replace("run the same command again", "send the same request again")
