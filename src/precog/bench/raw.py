"""The bare way to a record: the operating system's read of the same bytes, and nothing around it."""

import os
from collections.abc import Callable
from types import TracebackType

from precog.store import CorpusStore, Location
from precog.store.numbered import SEGMENTS
from precog.store.segment import segment_path


class RawReader:
    """Reads records of a store with ``pread`` alone: no catalogue, no checksum, no check."""

    def __init__(self, store: CorpusStore) -> None:
        self._folder = store.folder / SEGMENTS
        self._layout = store.layout
        self._descriptors: dict[int, int] = {}

    def __enter__(self) -> "RawReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def read(self, location: Location) -> bytes:
        """One ``pread`` of a record."""
        return os.pread(self.open(location), self._layout.record_bytes, self._layout.offset(location.slot))

    def open(self, location: Location) -> int:
        """The descriptor of a record's file, opened once."""
        if location.segment not in self._descriptors:
            self._descriptors[location.segment] = os.open(segment_path(self._folder, location.segment), os.O_RDONLY)
        return self._descriptors[location.segment]

    def drop(self, location: Location) -> None:
        """Lets the operating system forget a record, so that the next read comes from the disk."""
        offset = self._layout.offset(location.slot)
        os.posix_fadvise(self.open(location), offset, self._layout.record_bytes, os.POSIX_FADV_DONTNEED)


def bytes_read_by(call: Callable[[], object]) -> int | None:
    """Bytes that a call has the operating system hand over, from disk or from memory; None where nobody counts."""
    counts = []
    for what in (lambda: None, call):  # the counter is read from a file, too
        before = _bytes_read()
        what()
        after = _bytes_read()
        if before is None or after is None:
            return None
        counts.append(after - before)
    return counts[1] - counts[0]


def _bytes_read() -> int | None:
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("rchar:"))
    except (OSError, StopIteration, ValueError):
        return None
