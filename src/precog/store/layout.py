"""Where the parts of a record lie: the byte arithmetic of a segment file, format version 1.

It knows nothing of models: states are bytes, and what they mean is the ``note`` that whoever encodes them writes.
The format is described for outsiders in ``docs/format.md``.
"""

import functools
import json
import struct
import zlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from precog.errors import DamagedCorpusError, StateError

FORMAT_VERSION = 1
SEGMENT_MAGIC = b"PRECOGSG"
RECORD_MAGIC = b"PRCR"
SEGMENT_HEADER_BYTES = 4096
RECORD_HEADER_BYTES = 128
PART_ALIGNMENT_BYTES = 64
RECORD_ALIGNMENT_BYTES = 4096  # a block of the file system, so that a deleted record can be punched out whole

# magic, CRC of the rest of the header, version, token width, position width, number of the segment,
# record bytes, state bytes, tau bytes, token capacity, bytes of the JSON that follows
_SEGMENT_HEAD = struct.Struct("<8sIHBBIQQQII")


def _aligned(num_bytes: int, alignment: int) -> int:
    return -(-num_bytes // alignment) * alignment


@dataclass(frozen=True)
class RecordLayout:
    """The sizes that all records of a segment file share.

    Attributes:
        state_bytes: bytes of one encoded state.
        tau_bytes: bytes of τ (FP32, so a multiple of 4); 0 when it is not kept.
        max_tokens: token ids a record has room for.
        token_width: bytes of a token id, 2 or 4.
        note: JSON-able description of what the state bytes mean (dtype, shape, layers), for readers of the format.
    """

    state_bytes: int
    tau_bytes: int
    max_tokens: int
    token_width: int = 2
    note: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.state_bytes < 0 or self.tau_bytes < 0 or self.tau_bytes % 4 or self.max_tokens < 1:
            given = f"state {self.state_bytes}, tau {self.tau_bytes} bytes, {self.max_tokens} tokens"
            expected = "sizes ≥ 0, tau a multiple of 4, at least 1 token"
            raise StateError("a record cannot have these sizes", given=given, expected=expected)
        if self.token_width not in (2, 4):
            raise StateError("a token id takes 2 or 4 bytes", given=self.token_width, expected="2 or 4")
        if len(self._json()) > SEGMENT_HEADER_BYTES - _SEGMENT_HEAD.size:
            room = SEGMENT_HEADER_BYTES - _SEGMENT_HEAD.size
            raise StateError("the note is too long for a segment header", given=len(self._json()), expected=f"≤ {room}")

    @functools.cached_property
    def position_width(self) -> int:
        """Bytes of one suffix-array entry."""
        return 2 if self.max_tokens <= 1 << 16 else 4

    @functools.cached_property
    def state_offset(self) -> int:
        """Byte of a record at which the state begins."""
        return RECORD_HEADER_BYTES

    @functools.cached_property
    def tau_offset(self) -> int:
        """Byte of a record at which τ begins."""
        return self.state_offset + _aligned(self.state_bytes, PART_ALIGNMENT_BYTES)

    @functools.cached_property
    def tokens_offset(self) -> int:
        """Byte of a record at which the token ids begin."""
        return self.tau_offset + _aligned(self.tau_bytes, PART_ALIGNMENT_BYTES)

    @functools.cached_property
    def suffix_offset(self) -> int:
        """Byte of a record at which the suffix array begins."""
        return self.tokens_offset + _aligned(self.max_tokens * self.token_width, PART_ALIGNMENT_BYTES)

    @functools.cached_property
    def token_dtype(self) -> np.dtype[np.unsignedinteger]:
        """Of a stored token id."""
        return np.dtype(f"<u{self.token_width}")

    @functools.cached_property
    def position_dtype(self) -> np.dtype[np.unsignedinteger]:
        """Of a suffix-array entry."""
        return np.dtype(f"<u{self.position_width}")

    @functools.cached_property
    def record_bytes(self) -> int:
        """Bytes of a whole record, padding included."""
        end = self.suffix_offset + self.max_tokens * self.position_width
        return _aligned(end, RECORD_ALIGNMENT_BYTES)

    @cached_property
    def token_type(self) -> str:
        """NumPy's name of a token id's type."""
        return f"<u{self.token_width}"

    @cached_property
    def position_type(self) -> str:
        """NumPy's name of a suffix-array entry's type."""
        return f"<u{self.position_width}"

    def offset(self, slot: int) -> int:
        """Byte of the segment file at which record number ``slot`` begins."""
        return SEGMENT_HEADER_BYTES + slot * self.record_bytes

    def _json(self) -> bytes:
        return json.dumps(self.note, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def to_json(self) -> dict[str, object]:
        """The layout as the catalogue keeps it."""
        return {
            "state_bytes": self.state_bytes,
            "tau_bytes": self.tau_bytes,
            "max_tokens": self.max_tokens,
            "token_width": self.token_width,
            "note": self.note,
        }

    def segment_header(self, number: int) -> bytes:
        """The first 4,096 bytes of segment file ``number``."""
        note = self._json()
        sizes = (self.token_width, self.position_width, number, self.record_bytes, self.state_bytes, self.tau_bytes)
        blank = _SEGMENT_HEAD.pack(SEGMENT_MAGIC, 0, FORMAT_VERSION, *sizes, self.max_tokens, len(note))
        body = (blank[12:] + note).ljust(SEGMENT_HEADER_BYTES - 12, b"\0")
        return SEGMENT_MAGIC + struct.pack("<I", zlib.crc32(body)) + body

    @classmethod
    def from_segment_header(cls, header: bytes, number: int) -> "RecordLayout":
        """Reads the layout back from the head of a segment file.

        Raises:
            DamagedCorpusError: the header is short, foreign, of a newer format, or not the bytes that were written.
        """
        name = f"segment {number:06d}"
        if len(header) < SEGMENT_HEADER_BYTES or header[:8] != SEGMENT_MAGIC:
            raise DamagedCorpusError(f"the header of {name} is damaged", expected="a segment file of PRECOG")
        _, crc, version, token_width, _, stored, _, state, tau, max_tokens, note_bytes = _SEGMENT_HEAD.unpack_from(
            header
        )
        if crc != zlib.crc32(header[12:SEGMENT_HEADER_BYTES]) or stored != number:
            raise DamagedCorpusError(f"the header of {name} is damaged: checksum or number do not match")
        if version != FORMAT_VERSION:
            raise DamagedCorpusError(f"{name} has an unknown format", given=version, expected=FORMAT_VERSION)
        note = json.loads(header[_SEGMENT_HEAD.size : _SEGMENT_HEAD.size + note_bytes])
        return cls(state, tau, max_tokens, token_width, note)
