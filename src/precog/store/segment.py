"""Segment files: fixed-size records, appended, read with one ``pread`` each.

A reader keeps file descriptors only, never record bytes. The writer knows how many records of each file are
acknowledged because the catalogue tells it; whatever lies beyond was never promised to anybody and is cut off.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from precog.errors import DamagedCorpusError, DamagedStateError
from precog.store.failure import guarded
from precog.store.layout import RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, RecordLayout
from precog.store.numbered import SEGMENT_NAME, is_regular
from precog.store.record import Location, Record, is_refined, unpack
from precog.store.remedy import states_anew
from precog.writing import sync_folder

_PUNCH_HOLE_KEEP_SIZE = 0x03
_FLIPPED_BITS = 2  # two headers that were both written differ in more: in their checksums, too
_ZERO_BLOCK = bytes(1 << 20)


def segment_path(folder: Path, number: int) -> Path:
    """The file of segment ``number``."""
    return folder / f"{number:06d}.seg"


class SegmentReader:
    """Reads records of a folder of segment files; safe to use from several threads."""

    def __init__(self, folder: Path, layout: RecordLayout, remedy: str | None = None) -> None:
        self._folder = folder
        self._layout = layout
        self._remedy = remedy or states_anew(folder.parent.parent)
        self._descriptors: dict[int, int] = {}
        self._lock = threading.Lock()

    def read_bytes(self, location: Location) -> bytes:
        """The raw bytes of a record, unchecked: one ``pread``."""
        descriptor = self._descriptor(location)
        try:
            return os.pread(descriptor, self._layout.record_bytes, self._layout.offset(location.slot))
        except OSError as error:
            raise DamagedStateError(f"{location} cannot be read: {error.strerror}", hint=self._remedy) from error

    def is_refined(self, location: Location) -> bool:
        """Whether the header of a record says that its state is refined, unchecked: some bytes of the file."""
        descriptor = self._descriptor(location)
        try:
            return is_refined(os.pread(descriptor, RECORD_HEADER_BYTES, self._layout.offset(location.slot)))
        except OSError as error:
            raise DamagedStateError(f"{location} cannot be read: {error.strerror}", hint=self._remedy) from error

    def read(self, location: Location) -> Record:
        """Reads and checks one record.

        Raises:
            DamagedStateError: the bytes are not those that were written, or not there at all.
        """
        return unpack(self._layout, location, self.read_bytes(location), self._remedy)

    def prefetch(self, locations: Iterable[Location]) -> None:
        """Asks the operating system to start reading these records; returns at once."""
        if not hasattr(os, "posix_fadvise"):
            return
        for location in locations:
            descriptor, offset = self._descriptor(location), self._layout.offset(location.slot)
            os.posix_fadvise(descriptor, offset, self._layout.record_bytes, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Closes every descriptor."""
        with self._lock:
            for descriptor in self._descriptors.values():
                os.close(descriptor)
            self._descriptors.clear()

    def _descriptor(self, location: Location) -> int:
        descriptor = self._descriptors.get(location.segment)
        if descriptor is not None:
            return descriptor
        with self._lock:
            if location.segment not in self._descriptors:
                self._descriptors[location.segment] = self._open(location)
            return self._descriptors[location.segment]

    def _open(self, location: Location) -> int:
        path = segment_path(self._folder, location.segment)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            given = f"{path} ({error.strerror})"
            raise DamagedStateError(
                f"{location} cannot be read: its file does not open: {given}", hint=self._remedy
            ) from error
        try:
            header = os.pread(descriptor, SEGMENT_HEADER_BYTES, 0)
            try:
                found = RecordLayout.from_segment_header(header, location.segment)
            except DamagedCorpusError as error:
                raise DamagedCorpusError(
                    error.message, given=error.given, expected=error.expected, hint=self._remedy
                ) from error
            if found != self._layout:
                message = f"segment {location.segment:06d} was written with another record layout"
                raise DamagedCorpusError(
                    message, given=found.to_json(), expected=self._layout.to_json(), hint=self._remedy
                )
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class SegmentWriter:
    """Appends records; nothing counts until ``sync`` has returned and the catalogue has committed."""

    def __init__(self, folder: Path, layout: RecordLayout, max_segment_bytes: int, remedy: str | None = None) -> None:
        self._folder = folder
        self._layout = layout
        self._remedy = remedy or states_anew(folder.parent.parent)
        self._records_per_segment = max(1, (max_segment_bytes - SEGMENT_HEADER_BYTES) // layout.record_bytes)
        self._counts: dict[int, int] = {}
        self._next_number = 0
        self._dirty: dict[int, int] = {}
        self._folder_is_dirty = False
        self._foreign: set[int] = set()
        self._damage: dict[int, str] = {}

    @property
    def damage(self) -> tuple[str, ...]:
        """What `recover` found wrong with the files and let pass, a line each."""
        return tuple(self._damage.values())

    @property
    def counts(self) -> dict[int, int]:
        """Records per segment file, those not yet acknowledged included."""
        return dict(self._counts)

    @property
    def next_number(self) -> int:
        """The number the next new segment file gets; numbers are never used twice."""
        return self._next_number

    def records_in_files(self) -> dict[int, int]:
        """Whole records that each segment file of this layout has room for."""
        found: dict[int, int] = {}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if SEGMENT_NAME.fullmatch(path.name) and is_regular(path):
                size = path.stat().st_size - SEGMENT_HEADER_BYTES
                found[int(path.stem)] = max(0, size) // self._layout.record_bytes
        return found

    def recover(self, counts: Mapping[int, int], next_number: int, *, allow_damaged: bool = False) -> None:
        """Cuts the files back to what the catalogue acknowledges: ``counts`` records in each segment.

        Raises:
            DamagedCorpusError: an acknowledged segment is missing or too short, or its header is another one (unless
                ``allow_damaged``, which also mends a header with a flipped bit).
        """
        self._close()
        self._foreign, self._damage = set(), {}
        with guarded(self._folder):
            if not self._folder.is_dir():
                if counts and not allow_damaged:
                    raise DamagedCorpusError(f"the segment files are missing: {self._folder}", hint=self._remedy)
                self._folder.mkdir(mode=0o700)
            for path in self._folder.iterdir():
                number = int(path.stem) if SEGMENT_NAME.fullmatch(path.name) else -1
                if number < 0 or number in counts:
                    continue
                if self._may_be_ours(path, number):
                    path.unlink()
                else:
                    next_number = max(next_number, number + 1)
            for number, count in counts.items():
                self._cut_back(number, self._layout.offset(count), allow_damaged)
        self._counts = dict(counts)
        self._next_number = next_number

    def _cut_back(self, number: int, acknowledged: int, allow_damaged: bool) -> None:
        path = segment_path(self._folder, number)
        size = path.stat().st_size if path.is_file() else -1
        if size < 0:
            self._foreign.add(number)
            what = "missing"
        elif not self._has_header(path, number, allow_damaged):
            self._foreign.add(number)
            what = "damaged: its header is another one"
        elif size < acknowledged:
            what = f"cut short to {size} bytes"
        else:
            if size > acknowledged:
                os.truncate(path, acknowledged)
            return
        message = f"segment {number:06d} is {what}"
        self._damage[number] = message
        if not allow_damaged:
            raise DamagedCorpusError(message, expected=f"{acknowledged} bytes", hint=self._remedy)

    def _has_header(self, path: Path, number: int, mends: bool) -> bool:
        head, header = _head_of(path), self._layout.segment_header(number)
        if head == header:
            return True
        if not mends or len(head) != len(header) or _bits_apart(head, header) > _FLIPPED_BITS:
            return False
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _write_all(descriptor, header, 0)
            _datasync(descriptor)
        finally:
            os.close(descriptor)
        return True

    def _is_ours(self, number: int) -> bool:
        return number not in self._foreign and self._exists(number)

    def _exists(self, number: int) -> bool:
        return segment_path(self._folder, number).exists()

    def _may_be_ours(self, path: Path, number: int) -> bool:
        """Whether a file that nothing acknowledges is a segment, or was to become one."""
        if not is_regular(path):
            return False
        head, header = _head_of(path), self._layout.segment_header(number)
        return head in (header, bytes(len(head))) or header.startswith(head) or head.startswith(SEGMENT_MAGIC)

    def next_location(self) -> Location:
        """Where the next record will lie: the last segment, or a new one when that is full or damaged."""
        last = max(self._counts, default=-1)
        if last >= 0 and last not in self._damage and self._counts[last] < self._records_per_segment:
            return Location(last, self._counts[last])
        return Location(self._next_number, 0)

    def append(self, location: Location, record: bytes | bytearray) -> None:
        """Writes a record at ``next_location()``.

        Raises:
            StorageError: the disk is full or refuses to be written.
        """
        path = segment_path(self._folder, location.segment)
        with guarded(path):
            descriptor = self._writable(location.segment)
            _write_all(descriptor, record, self._layout.offset(location.slot))
        self._counts[location.segment] = location.slot + 1

    def start_new_segment(self) -> None:
        """Makes the next record open a new file, so that the present files can be dropped."""
        self._counts = {}

    def sync(self) -> None:
        """Returns when every appended byte is on the disk.

        Raises:
            StorageError: the disk refuses.
        """
        with guarded(self._folder):
            for descriptor in self._dirty.values():
                _datasync(descriptor)
            if self._folder_is_dirty:
                sync_folder(self._folder)
        self._close()

    def erase(self, locations: Iterable[Location]) -> list[Location]:
        """Overwrites records with zeros on the disk and gives their blocks back where the file system can.

        Returns:
            Those that were left as they are, because another file's header stands before them.

        Raises:
            StorageError: the disk refuses.
        """
        touched: set[int] = set()
        places = sorted(locations)
        with guarded(self._folder):
            for location in places:
                if not self._is_ours(location.segment):
                    continue
                descriptor = self._writable(location.segment)
                _write_zeros(descriptor, self._layout.offset(location.slot), self._layout.record_bytes)
                touched.add(location.segment)
            for number in touched:
                _datasync(self._dirty[number])
            for location in places:
                if location.segment in touched:
                    offset = self._layout.offset(location.slot)
                    _punch_hole(self._dirty[location.segment], offset, self._layout.record_bytes)
        self._close()
        return [place for place in places if place.segment not in touched and self._exists(place.segment)]

    def remove(self, numbers: Iterable[int]) -> None:
        """Deletes whole segment files, their bytes zeroed first."""
        with guarded(self._folder):
            for number in numbers:
                path = segment_path(self._folder, number)
                if self._is_ours(number):
                    descriptor = self._writable(number)
                    _write_zeros(descriptor, 0, os.fstat(descriptor).st_size)
                    _datasync(descriptor)
                    path.unlink()
            self._close()
            sync_folder(self._folder)

    def close(self) -> None:
        """Closes every descriptor."""
        self._close()

    def _writable(self, number: int) -> int:
        if number not in self._dirty:
            path = segment_path(self._folder, number)
            is_new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._dirty[number] = descriptor
            if is_new:
                self._folder_is_dirty = True
                self._next_number = max(self._next_number, number + 1)
                _write_all(descriptor, self._layout.segment_header(number), 0)
        return self._dirty[number]

    def _close(self) -> None:
        for descriptor in self._dirty.values():
            os.close(descriptor)
        self._dirty.clear()
        self._folder_is_dirty = False


def _head_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(SEGMENT_HEADER_BYTES)


def _bits_apart(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _write_all(descriptor: int, data: bytes | bytearray, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _write_zeros(descriptor: int, offset: int, num_bytes: int) -> None:
    while num_bytes > 0:
        block = _ZERO_BLOCK[: min(num_bytes, len(_ZERO_BLOCK))]
        _write_all(descriptor, block, offset)
        offset, num_bytes = offset + len(block), num_bytes - len(block)


def _datasync(descriptor: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _punch_hole(descriptor: int, offset: int, num_bytes: int) -> None:
    # Only Linux gives blocks back this way; elsewhere, and on file systems that cannot, the zeros stay.
    if sys.platform == "linux":
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
        fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        fallocate(descriptor, _PUNCH_HOLE_KEEP_SIZE, offset, num_bytes)
