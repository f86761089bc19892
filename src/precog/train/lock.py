"""One run per output folder: a lock that the system frees when the process ends, however it ends."""

import fcntl
import os
from pathlib import Path

from precog.errors import StorageError, TrainingError

LOCK_FILE = ".lock"


class RunLock:
    """Held by the first process of the run that may write to a folder.

    Raises:
        TrainingError: another run holds it.
        StorageError: the folder cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError("the output folder cannot be written", given=folder, hint=error.strerror) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise TrainingError(
                "another run writes to this folder",
                given=f"{folder}, process {holder}",
                expected="one run per folder",
                hint="choose another --out folder; start several processes of one run with torchrun",
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next run in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
