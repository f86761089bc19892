"""Searches every byte of a folder the plain way: what the search behind ``precog forget`` is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from precog.errors import CorpusError

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class ScanHit:
    """A place where a searched byte string was found."""

    path: Path
    offset: int
    needle: int


@dataclass(frozen=True)
class ScanReport:
    """What a scan has read and found.

    Attributes:
        files_searched: every regular file below the folder, hidden and temporary ones included.
        bytes_searched: their sizes, summed.
        hits: the first place in each file of each needle that is there (``needle`` is its index).
    """

    files_searched: int
    bytes_searched: int
    hits: list[ScanHit]


def scan(folder: Path, needles: Sequence[bytes]) -> ScanReport:
    """Looks for byte strings in every file below ``folder``, in blocks, so that no file has to fit into memory.

    Raises:
        CorpusError: a needle is empty, or a file cannot be read.
    """
    if any(not needle for needle in needles):
        raise CorpusError("an empty byte string is everywhere", given="an empty needle")
    hits: list[ScanHit] = []
    num_files = num_bytes = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            found, size = _scan_file(path, needles)
        except OSError as error:
            raise CorpusError("a file of the corpus cannot be read", given=f"{path} ({error.strerror})") from error
        hits += found
        num_files, num_bytes = num_files + 1, num_bytes + size
    return ScanReport(num_files, num_bytes, hits)


def _scan_file(path: Path, needles: Sequence[bytes]) -> tuple[list[ScanHit], int]:
    overlap = max((len(needle) for needle in needles), default=1) - 1
    missing = dict(enumerate(needles))
    hits: list[ScanHit] = []
    size, tail = 0, b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            window = tail + block
            for number, needle in list(missing.items()):
                position = window.find(needle)
                if position >= 0:
                    hits.append(ScanHit(path, size - len(tail) + position, number))
                    del missing[number]
            size += len(block)
            tail = window[-overlap:] if overlap else b""
    return hits, size
