"""Very many byte strings, looked for at every byte offset in one pass: the proof that nothing of something is left.

Two kinds are looked for: strings, each at least 8 bytes long and kept as it is; and every 64-byte window of states and
keys, which are far too many to be kept. Of a window 12 bytes are: two checksums of it. So a copy is never missed, and
what is no copy passes for one with a chance of 2^-96 in each comparison. A pass looks 8 bytes at every offset up in a
table of bits, and compares only what is left.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from jaxtyping import Int64, UInt8, UInt32, UInt64

from precog.store.open_files import opened_beside

MIN_BYTES = 8
WINDOW_BYTES = 64
_WORDS = WINDOW_BYTES // 8
_BLOCK_BYTES = 1 << 18
_LEAST_BITS, _MOST_BITS = 16, 27
_SPARSE_BITS = 5  # so many more bits than one for each string: few offsets are looked at twice
_MIX, _MIX_AGAIN, _STIR = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93))
_FACTORS: UInt64[np.ndarray, " 8"] = np.random.default_rng(0x5EED).integers(0, 1 << 64, _WORDS, np.uint64) | np.uint64(
    1
)
_HALF = np.uint64(32)


class Needles:
    """What to search for; strings that are too short, or zero throughout, say nothing and are left out.

    Args:
        strings: each is looked for as it is.
        states: each is looked for in every 64-byte window from its beginning on, and in its last 64 bytes. One at a
            time is read from here, and none is kept.
    """

    def __init__(self, strings: Iterable[bytes] = (), states: Iterable[UInt8[np.ndarray, " _"]] = ()) -> None:
        self._strings = {text for text in strings if len(text) >= MIN_BYTES and text.strip(b"\0")}
        parts = [_digested(windows) for windows in map(self._windows, states) if len(windows)]
        anchors, sums, checks, shifts = (
            np.concatenate(column) if parts else np.empty(0, kind)
            for column, kind in zip(
                zip(*parts, strict=True) if parts else ((),) * 4,
                (np.uint64, np.uint64, np.uint32, np.uint8),
                strict=True,
            )
        )
        del parts
        order = np.argsort(sums, kind="stable")
        anchors, sums, checks, shifts = anchors[order], sums[order], checks[order], shifts[order]
        repeated = np.zeros(len(sums), np.bool_)
        repeated[1:] = (sums[1:] == sums[:-1]) & (checks[1:] == checks[:-1])
        self._settle(anchors[~repeated], sums[~repeated], checks[~repeated], shifts[~repeated])

    def _settle(
        self,
        anchors: UInt64[np.ndarray, " windows"],
        sums: UInt64[np.ndarray, " windows"],
        checks: UInt32[np.ndarray, " windows"],
        shifts: UInt8[np.ndarray, " windows"],
    ) -> None:
        self._texts = sorted(self._strings)
        self._by_head: dict[int, list[int]] = {}
        for number, text in enumerate(self._texts):
            self._by_head.setdefault(int.from_bytes(text[:8], "little"), []).append(number)
        self._heads = np.array(sorted(self._by_head), np.uint64)
        self._anchors, self._sums, self._checks, self._shifts = anchors, sums, checks, shifts
        # windows of one checksum and another check, of which there are hardly ever two
        self._most_alike = int(np.unique(sums, return_counts=True)[1].max()) if len(sums) else 0
        self._anchor_words = np.unique(shifts).tolist()
        self._longest = max([*map(len, self._texts), WINDOW_BYTES if len(sums) else MIN_BYTES])
        wanted = (len(self._heads) + len(anchors)).bit_length() + _SPARSE_BITS
        self._bits = np.uint64(64 - min(max(wanted, _LEAST_BITS), _MOST_BITS))
        table = np.zeros(1 << (64 - int(self._bits)), np.bool_)
        for words in (self._heads, anchors):
            for mix in (_MIX, _MIX_AGAIN):
                table[((words * mix) >> self._bits).view(np.int64)] = True
        self._table = np.packbits(table, bitorder="little")

    def _windows(self, state: UInt8[np.ndarray, " n"]) -> UInt64[np.ndarray, "windows 8"]:
        data = np.ascontiguousarray(state)
        if len(data) < WINDOW_BYTES:
            text = data.tobytes()
            if len(text) >= MIN_BYTES and text.strip(b"\0"):
                self._strings.add(text)
            return np.empty((0, _WORDS), np.uint64)
        whole = len(data) // WINDOW_BYTES * WINDOW_BYTES
        windows = data[:whole].reshape(-1, WINDOW_BYTES)
        if whole < len(data):
            windows = np.concatenate([windows, data[None, -WINDOW_BYTES:]])
        words = windows.copy().view(np.uint64)
        kept: UInt64[np.ndarray, "windows 8"] = words[words.any(axis=1)]
        return kept

    def __len__(self) -> int:
        return len(self._texts) + len(self._sums)

    @property
    def num_bytes(self) -> int:
        """What is kept of the windows, and the table."""
        arrays = (self._anchors, self._sums, self._checks, self._shifts, self._table)
        return sum(array.nbytes for array in arrays)

    def only(self, numbers: Int64[np.ndarray, " k"]) -> "Needles":
        """Some of them, by their numbers."""
        chosen = np.unique(numbers)
        few = Needles(self._texts[number] for number in chosen[chosen < len(self._texts)].tolist())
        rows = chosen[chosen >= len(self._texts)] - len(self._texts)
        few._settle(self._anchors[rows], self._sums[rows], self._checks[rows], self._shifts[rows])
        return few

    def found_in(self, data: bytes) -> set[bytes]:
        """Those that are somewhere in ``data``."""
        found = set()
        for numbers, offsets in self._matches(np.frombuffer(data, np.uint8)):
            for number, offset in zip(numbers.tolist(), offsets.tolist(), strict=True):
                size = len(self._texts[number]) if number < len(self._texts) else WINDOW_BYTES
                found.add(data[offset : offset + size])
        return found

    def numbers_in(self, data: npt.NDArray[np.generic] | bytes) -> Int64[np.ndarray, " k"]:
        """Numbers, from 0 to less than ``len``, of those that are somewhere in ``data``; rising."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8)
        return _united([numbers for numbers, _ in self._matches(raw.ravel())])

    def numbers_in_file(
        self, path: Path, on_bytes: Callable[[int], None] = lambda done: None
    ) -> tuple[Int64[np.ndarray, " k"], int]:
        """Numbers of those that are somewhere in a file, and how many bytes were read; ``on_bytes`` is told so far."""
        found: list[Int64[np.ndarray, " k"]] = []
        size, tail = 0, b""
        with opened_beside(path) as file:
            while block := file.read(_BLOCK_BYTES):
                window = tail + block
                numbers = self.numbers_in(window)
                if len(numbers):
                    found.append(numbers)
                size += len(block)
                on_bytes(size)
                tail = window[-(self._longest - 1) :]
        return _united(found), size

    def _matches(
        self, raw: UInt8[np.ndarray, " n"]
    ) -> Iterator[tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]]:
        # nothing that is looked for is zero throughout, and erased records are
        if not len(self) or len(raw) < MIN_BYTES or not raw.any():
            return
        heads = np.empty(len(raw) - 7, np.uint64)
        for shift in range(8):  # eight aligned views, so that nothing is read across a word in numpy
            whole = (len(raw) - shift) // 8
            heads[shift::8] = raw[shift : shift + 8 * whole].view(np.uint64) if whole else 0
        offsets = np.flatnonzero(self._is_likely(heads, _MIX))
        words = heads[offsets]
        likely = self._is_likely(words, _MIX_AGAIN) != 0
        offsets, words = offsets[likely], words[likely]
        if len(offsets):
            yield self._texts_at(raw, words, offsets)
            for shift in self._anchor_words:
                yield self._windows_at(raw, offsets - 8 * shift)

    def _texts_at(
        self, raw: UInt8[np.ndarray, " n"], words: UInt64[np.ndarray, " c"], offsets: Int64[np.ndarray, " c"]
    ) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
        found: dict[int, int] = {}
        if len(self._heads):
            places = np.minimum(np.searchsorted(self._heads, words), len(self._heads) - 1)
            is_head = self._heads[places] == words
            data = raw.data
            for word, offset in zip(words[is_head].tolist(), offsets[is_head].tolist(), strict=True):
                for number in self._by_head[word]:
                    text = self._texts[number]
                    if number not in found and data[offset : offset + len(text)] == text:
                        found[number] = offset
        return np.array(list(found), np.int64), np.array(list(found.values()), np.int64)

    def _windows_at(
        self, raw: UInt8[np.ndarray, " n"], starts: Int64[np.ndarray, " c"]
    ) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
        starts = starts[(starts >= 0) & (starts <= len(raw) - WINDOW_BYTES)]
        if not len(starts):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(raw, WINDOW_BYTES)[starts]
        sums, checks = _sums(windows.view(np.uint64))
        places = np.searchsorted(self._sums, sums)
        found, at = [], []
        for step in range(self._most_alike):
            rows = np.minimum(places + step, len(self._sums) - 1)
            is_same = (self._sums[rows] == sums) & (self._checks[rows] == checks)
            found.append(rows[is_same] + len(self._texts))
            at.append(starts[is_same])
        return np.concatenate(found), np.concatenate(at)

    def _is_likely(self, words: UInt64[np.ndarray, " n"], mix: np.uint64) -> npt.NDArray[np.uint8]:
        slots = words * mix
        slots >>= self._bits
        bits = np.left_shift(1, slots & np.uint64(7), dtype=np.uint8, casting="unsafe")
        slots >>= np.uint64(3)
        likely: npt.NDArray[np.uint8] = self._table.take(slots.view(np.int64))
        likely &= bits
        return likely


def _digested(
    words: UInt64[np.ndarray, "windows 8"],
) -> tuple[
    UInt64[np.ndarray, " windows"],
    UInt64[np.ndarray, " windows"],
    UInt32[np.ndarray, " windows"],
    UInt8[np.ndarray, " windows"],
]:
    # the first word that says something: zeros are everywhere, and would be looked at every time
    shifts = (words != 0).argmax(axis=1)
    sums, checks = _sums(words)
    return words[np.arange(len(words)), shifts], sums, checks, shifts.astype(np.uint8)


def _sums(
    words: UInt64[np.ndarray, "windows 8"],
) -> tuple[UInt64[np.ndarray, " windows"], UInt32[np.ndarray, " windows"]]:
    stirred = words * _STIR
    for _ in range(2):  # each step can be undone, so that words that differ stay different
        stirred ^= stirred >> _HALF
        stirred *= _STIR
    stirred ^= stirred >> _HALF
    sums: UInt64[np.ndarray, " windows"] = (stirred * _FACTORS).sum(axis=1, dtype=np.uint64)
    checks = ((stirred ^ (stirred >> np.uint64(29))) * _FACTORS[::-1]).sum(axis=1, dtype=np.uint64)
    return sums, (checks >> _HALF).astype(np.uint32)


def _united(parts: list[Int64[np.ndarray, " _"]]) -> Int64[np.ndarray, " k"]:
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
