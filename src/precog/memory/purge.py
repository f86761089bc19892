"""Everything of a user goes, and nothing of anybody else."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from precog.errors import StorageError
from precog.store.folder import WriterLock, sync_folder

_BLOCK_BYTES = 1 << 20
_GONE = ".purged-"
UNREACHABLE = (
    "archives that were exported",
    "backups and file-system snapshots",
    "blocks that the drive itself keeps of overwritten data",
)
"""What neither purging nor forgetting comes near."""


@dataclass(frozen=True)
class Purged:
    """What was removed."""

    num_files: int
    num_bytes: int


def purge(folder: Path, *, wait_sec: float = 5.0) -> Purged:
    """Overwrite and remove a memory's folder; readers that are open keep what they have open.

    The folder loses its name first, so that a purge that was interrupted leaves no half of a memory behind; the next
    purge of any user ends it.

    Raises:
        BusyError: another process is writing to it.
        StorageError: a file cannot be removed; the memory is out of reach all the same.
    """
    gone = folder.with_name(_GONE + folder.name)
    lock = WriterLock(folder, wait_sec, "memory")
    try:
        if gone.exists():
            _remove(gone)
        folder.rename(gone)
        sync_folder(folder.parent)
    finally:
        lock.release()
    count = size = 0
    for left in sorted(folder.parent.glob(f"{_GONE}*")):
        files, num_bytes = _remove(left)
        if left == gone:
            count, size = files, num_bytes
    sync_folder(folder.parent)
    return Purged(count, size)


def _remove(folder: Path) -> tuple[int, int]:
    count = size = 0
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                size += _blank(path)
                count += 1
        shutil.rmtree(folder)
    except OSError as error:
        raise StorageError(f"a purged memory cannot be removed: {folder} ({error.strerror})") from error
    return count, size


def _blank(path: Path) -> int:
    size = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        for start in range(0, size, _BLOCK_BYTES):
            file.write(b"\0" * min(_BLOCK_BYTES, size - start))
        os.fsync(file.fileno())
    return size
