"""Files that a user asks for: each appears whole or not at all, and only where it harms nothing."""

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from precog.errors import StorageError

MARKER = "precog.json"
"""The file that says what a folder of this program is."""
OURS = "precog"
"""What stands there under the folder's kind."""
KINDS = ("corpus", "memory")
"""What a folder may be; the card of a model, a file of the same name too, may have any values under other keys."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(path: Path, mode: int = 0o600) -> int:
    """A descriptor of a file that nobody has made before, and that no link leads away from.

    Raises:
        OSError: something of that name is there, or the disk refuses.
    """
    return os.open(path, _NEW, mode)


def sync_folder(path: Path) -> None:
    """Returns when the names in the folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def marked_kinds(folder: Path) -> list[str]:
    """What a folder is by its marker: nothing, or ``corpus`` or ``memory``."""
    try:
        found = json.loads((folder / MARKER).read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    return [kind for kind in KINDS if found.get(kind) == OURS] if isinstance(found, dict) else []


def output_target(path: Path, what: str = "file") -> Path:
    """Where a file is to be written: what ``path`` points to, if it is a link.

    Raises:
        StorageError: a folder, a pipe or a device is there, it lies in the folder of a corpus or a memory, or there is
            no such folder, or none that may be written to.
    """
    try:
        target = Path(os.path.realpath(path))
        found = os.stat(target).st_mode if os.path.lexists(target) else stat.S_IFREG
        inside = next((kind for folder in target.parents for kind in marked_kinds(folder)), None)
        has_folder = target.parent.is_dir()
    except OSError as error:
        raise StorageError(f"the {what} cannot be written", given=f"{path}: {error.strerror or error}") from error
    if not stat.S_ISREG(found):
        given = f"{path}, a {'folder' if stat.S_ISDIR(found) else 'pipe or device'}"
        raise StorageError(f"the {what} cannot be written there", given=given, expected="the name of a file")
    if inside:
        given, hint = f"{path}, within a {inside}", "name a file elsewhere"
        raise StorageError(f"the {what} cannot be written there", given=given, expected="another folder", hint=hint)
    if not has_folder:
        message = f"the {what} cannot be written: there is no such folder"
        raise StorageError(message, given=target.parent, hint="make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):  # else it is told when hours of work are to be written
        message = f"the {what} cannot be written: nothing can be written to its folder"
        raise StorageError(message, given=target.parent, expected="a folder that is yours to write to")
    return target


@contextlib.contextmanager
def output_file(path: Path, what: str = "file", *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to write that takes the place of ``path`` when the block has ended well; a link goes on pointing to it.

    Until then it stands beside it under a random name; what was there is untouched, and stays if anything fails.

    Args:
        path: of the file.
        what: it is, for errors.
        mode: of the file; by default its owner alone may read it.

    Raises:
        StorageError: see `output_target`; or the disk refuses.
    """
    target = output_target(path, what)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = open_new(temporary)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), mode)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(f"the {what} cannot be written", given=f"{path}: {error.strerror or error}") from error
