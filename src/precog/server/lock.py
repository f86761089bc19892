"""Files that only one process holds at a time; the system frees them when the process ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precog.errors import BusyError
from precog.store.failure import guarded


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Inside, no other process is inside for the same file.

    Args:
        path: of the file; made with mode 0600 if it is not there.
        busy: what to say when another process is; without it, it is waited for.

    Raises:
        BusyError: another process is, and ``busy`` says so.
        StorageError: the disk refuses.
    """
    with guarded(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            given, hint = f"{path.parent}, process {holder}", "stop it, or choose another folder with --data"
            raise BusyError(busy or "it is in use", given=given, hint=hint) from error
        if busy is not None:
            with guarded(path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
