"""Searches files for very many byte strings in one pass: the proof that nothing of a document is left.

Each byte string is at least 8 bytes long. A pass looks the first 8 bytes at every offset up in a table of 2^20 bits,
and compares only what is left, so its time hardly depends on how many strings there are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import UInt64

from precog.errors import CorpusError

MIN_BYTES = 8
_BLOCK_BYTES = 1 << 20
_TABLE_BITS = 20
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Needles:
    """Byte strings to search for; those that are too short, or zero throughout, say nothing and are left out."""

    def __init__(self, strings: Iterable[bytes]) -> None:
        self._strings = sorted({text for text in strings if len(text) >= MIN_BYTES and text.strip(b"\0")})
        self._longest = max(map(len, self._strings), default=MIN_BYTES)
        self._by_head: dict[int, list[bytes]] = {}
        for text in self._strings:
            self._by_head.setdefault(int.from_bytes(text[:8], "little"), []).append(text)
        self._table = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._table[_slots(np.array(list(self._by_head), np.uint64))] = True

    def __len__(self) -> int:
        return len(self._strings)

    def found_in(self, data: bytes) -> set[bytes]:
        """Those that are somewhere in ``data``."""
        return {text for _, text in self._matches(data)}

    def found_in_file(self, path: Path) -> tuple[set[bytes], int]:
        """Those that are somewhere in a file, and how many bytes were read."""
        found: set[bytes] = set()
        size, tail = 0, b""
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                window = tail + block
                found |= self.found_in(window)
                size += len(block)
                tail = window[-(self._longest - 1) :]
        return found, size

    def _matches(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        if not self._strings or len(data) < MIN_BYTES:
            return
        raw = np.frombuffer(data, np.uint8)
        heads = np.empty(len(raw) - 7, np.uint64)
        for shift in range(8):  # eight aligned views, so that nothing is read across a word in numpy
            words = (len(raw) - shift) // 8
            heads[shift::8] = raw[shift : shift + 8 * words].view(np.uint64) if words else 0
        for offset in np.flatnonzero(self._table[_slots(heads)]).tolist():
            for text in self._by_head.get(int(heads[offset]), ()):
                if data.startswith(text, offset):
                    yield offset, text


@dataclass(frozen=True)
class SearchReport:
    """What a search of a folder has read and found.

    Attributes:
        files_searched: every regular file below the folder.
        bytes_searched: their sizes, summed.
        searched_for: distinct byte strings.
        hits: how many of them are still somewhere.
        hit_files: where.
    """

    files_searched: int
    bytes_searched: int
    searched_for: int
    hits: int
    hit_files: list[str] = field(default_factory=list)


def search_folder(folder: Path, needles: Needles) -> SearchReport:
    """Looks for all of the needles in every byte of every file below ``folder``.

    Raises:
        CorpusError: a file cannot be read.
    """
    hits: set[bytes] = set()
    num_files = num_bytes = 0
    hit_files = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            found, size = needles.found_in_file(path)
        except FileNotFoundError:  # SQLite's log, which goes with the last reader
            continue
        except OSError as error:
            raise CorpusError(f"a file cannot be searched: {path} ({error.strerror})") from error
        num_files, num_bytes = num_files + 1, num_bytes + size
        hits |= found
        if found:
            hit_files.append(str(path))
    return SearchReport(num_files, num_bytes, len(needles), len(hits), hit_files)


def _slots(heads: UInt64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    return (heads * _MIX) >> np.uint64(64 - _TABLE_BITS)
