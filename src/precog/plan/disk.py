"""How fast a disk is read: a file is written, dropped from memory, and read again in small and large pieces."""

import os
import secrets
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from precog.errors import StorageError
from precog.plan.speed import ReadSpeed
from precog.writing import open_new

FILE_BYTES = 128 << 20
SMALL, LARGE = 4096, 4 << 20
_REPEATS = 32
_COLD_SHARE = 0.9
IO_COUNTERS = Path("/proc/self/io")


@dataclass(frozen=True)
class DiskSpeed:
    """What was measured.

    Attributes:
        speed: latency of a small read; bandwidth of large ones.
        is_cold: whether the bytes came from the disk: True or False as the system counts them, None where it does not.
    """

    speed: ReadSpeed
    is_cold: bool | None


def measure_disk(folder: Path, num_bytes: int = FILE_BYTES, counters: Path = IO_COUNTERS) -> DiskSpeed:
    """Measure the disk that a folder lies on.

    The file has no name while it is written and read: nothing can leave it behind, not even a process that is killed.

    Args:
        folder: where the temporary file is made.
        num_bytes: of it: at least one large piece.
        counters: the system's count of bytes that this process had read from disks.

    Raises:
        StorageError: the folder is missing, or the disk is full or refuses.
    """
    path = folder / f".precog-speed-{secrets.token_hex(8)}"
    try:
        descriptor = _unnamed(path, num_bytes)
        try:
            before = _read_from_disks(counters)
            _forget(descriptor)
            large = _bytes_per_sec(descriptor, num_bytes)
            after = _read_from_disks(counters)
            _forget(descriptor)
            small = _small_sec(descriptor, num_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError("the disk cannot be measured", given=folder, hint=error.strerror) from error
    is_cold = None if before is None or after is None else after - before >= _COLD_SHARE * num_bytes
    return DiskSpeed(ReadSpeed(max(small - SMALL / large, 0.0), large), is_cold)


def _unnamed(path: Path, num_bytes: int) -> int:
    """A descriptor to read random bytes from, of a file that has lost its name."""
    writing = open_new(path)
    try:
        try:
            reading = os.open(path, os.O_RDONLY)
        finally:
            path.unlink()
        try:
            _fill(writing, num_bytes)
        except BaseException:
            os.close(reading)
            raise
    finally:
        os.close(writing)
    return reading


def _fill(descriptor: int, num_bytes: int) -> None:
    piece = memoryview(secrets.token_bytes(LARGE))  # a disk may not keep zeros at all
    left = num_bytes
    while left:  # a disk that is nearly full takes a part of a piece, and refuses the rest
        left -= os.write(descriptor, piece[: min(LARGE, left)])
    os.fsync(descriptor)


def _forget(descriptor: int) -> None:
    """Let the system drop the file from memory, where it can be asked to."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_per_sec(descriptor: int, num_bytes: int) -> float:
    started = time.perf_counter()
    for start in range(0, num_bytes, LARGE):
        os.pread(descriptor, LARGE, start)
    return num_bytes / max(time.perf_counter() - started, 1e-9)


def _small_sec(descriptor: int, num_bytes: int) -> float:
    """Median seconds of a small read, at places far from each other: the system reads ahead of near ones."""
    step = max(num_bytes // _REPEATS // SMALL, 1) * SMALL
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    seconds = []
    for number in range(_REPEATS):
        place = (7 * number % _REPEATS) * step  # 7 has no factor in common with the number of places
        started = time.perf_counter()
        os.pread(descriptor, SMALL, min(place, max(num_bytes - SMALL, 0)))
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _read_from_disks(counters: Path) -> int | None:
    try:
        lines = counters.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
