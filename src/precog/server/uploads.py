"""Files that are sent: what they may be called, and where they wait until they are ingested.

A file waits under a number in the folder of its job; its name is only ever a word that people see.
"""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from precog.errors import InputError, StorageError
from precog.server.job import Upload
from precog.writing import open_new

MOST_NAME_CHARS = 255
MOST_FILES = 1_000
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Sent:
    """A file as it was sent.

    Attributes:
        name: what the document is to be called.
        stream: its bytes, from where it stands.
    """

    name: str
    stream: BinaryIO


def check_document_name(name: str) -> str:
    """A name that a document may have: words that can be shown, ``/`` between folders, and no way out of them.

    Raises:
        InputError: it is none.
    """
    parts = name.split("/")
    if len(name) > MOST_NAME_CHARS or not name.isprintable() or "\\" in name or not {"", ".", ".."}.isdisjoint(parts):
        shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name[:80])
        expected = f"1 to {MOST_NAME_CHARS} printable characters, a relative path without . or .. at most"
        raise InputError("this is no name of a document", given=shown, expected=expected)
    return name


def check_names(names: Iterable[str]) -> None:
    """Checks the names of one upload.

    Raises:
        InputError: one is no name, there are too many or none, or two are the same.
    """
    seen: set[str] = set()
    for name in names:
        if check_document_name(name) in seen:
            raise InputError("two files have the same name", given=name)
        seen.add(name)
        if len(seen) > MOST_FILES:
            raise InputError("there are too many files", given=len(seen), expected=f"at most {MOST_FILES}")
    if not seen:
        raise InputError("there is no file in this request", expected="multipart/form-data with files, or a body")


def unkept(error: OSError, name: str | None = None) -> StorageError:
    """What is said when the disk does not take a file."""
    return StorageError("the upload cannot be kept", given=name, hint=error.strerror)


def keep(folder: Path, sent: Iterable[Sent]) -> tuple[Upload, ...]:
    """Copies files into the folder of a job; returns when they are on the disk.

    Raises:
        StorageError: the disk is full or refuses.
    """
    kept = []
    for number, one in enumerate(sent):
        file = f"{number:06d}"
        try:
            with os.fdopen(open_new(folder / file), "wb") as copy:
                shutil.copyfileobj(one.stream, copy, _COPY_BYTES)
                copy.flush()
                os.fsync(copy.fileno())
                num_bytes = copy.tell()
        except OSError as error:
            with suppress(OSError):
                (folder / file).unlink(missing_ok=True)
            raise unkept(error, one.name) from error
        kept.append(Upload(one.name, file, num_bytes))
    return tuple(kept)
