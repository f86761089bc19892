"""One record: a state, its τ and the token ids it has read, as the bytes of a segment file.

Layout (little-endian; offsets of the parts in ``layout.py``)::

    0    magic "PRCR"
    4    CRC32 of bytes 8 … end of the record, padding included
    8    format version (u16), flags (u16): 1 there is a suffix array, 2 the state is refined
    12   number of tokens (u32)
    16   segment number (u32), slot (u32): a record read at another place is refused
    24   state bytes (u64), tau bytes (u64)
    40   fingerprint (32 bytes)
    72   content hash (32 bytes): sha256 of fingerprint and token ids
    104  zeros to 128, then state · τ · token ids · suffix array, each on a 64-byte boundary
"""

import hashlib
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from jaxtyping import Float32, Integer, UInt8

from precog.errors import DamagedStateError, StateError
from precog.store.layout import FORMAT_VERSION, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordLayout

_HEAD = struct.Struct("<4sIHHIIIQQ32s32s")
_FINGERPRINT, _CONTENT_HASH = slice(40, 72), slice(72, 104)
_HAS_SUFFIX_ARRAY = 1
_IS_REFINED = 2
_FLOAT32 = np.dtype("<f4")


@dataclass(frozen=True, order=True)
class Location:
    """The place of a record: segment file and slot in it."""

    segment: int
    slot: int

    def __str__(self) -> str:
        return f"segment {self.segment:06d}, record {self.slot}"


@dataclass(frozen=True)
class Record:
    """What one read of the store returns: the bytes that were read, checked, and read-only views of their parts.

    Attributes:
        layout: where the parts lie.
        data: the whole record.
    """

    layout: RecordLayout
    data: bytes

    @property
    def state(self) -> UInt8[np.ndarray, " state_bytes"]:
        """The encoded state."""
        return np.frombuffer(self.data, np.uint8, self.layout.state_bytes, self.layout.state_offset)

    @property
    def tau(self) -> Float32[np.ndarray, " tau"]:
        """Σ Δ per group and layer, [tau_bytes / 4]."""
        return np.frombuffer(self.data, "<f4", self.layout.tau_bytes // 4, self.layout.tau_offset)

    @property
    def token_ids(self) -> Integer[np.ndarray, " num_tokens"]:
        """The tokens the state has read, uint16 or uint32."""
        return np.frombuffer(self.data, self.layout.token_type, self.num_tokens, self.layout.tokens_offset)

    @property
    def suffix_array(self) -> Integer[np.ndarray, " num_suffixes"]:
        """Sorted suffix starts of ``token_ids``, same length, or empty when it was not given."""
        count = self.num_tokens if _flags(self.data) & _HAS_SUFFIX_ARRAY else 0
        return np.frombuffer(self.data, self.layout.position_type, count, self.layout.suffix_offset)

    @property
    def refined(self) -> bool:
        """Whether the state was trained on after it was read, so that reading the tokens does not give it."""
        return is_refined(self.data)

    @property
    def fingerprint(self) -> bytes:
        """32 bytes of what produced the state."""
        return self.data[_FINGERPRINT]

    @property
    def content_hash(self) -> bytes:
        """Sha256 of fingerprint and token ids."""
        return self.data[_CONTENT_HASH]

    @property
    def num_tokens(self) -> int:
        """Tokens read."""
        return int.from_bytes(self.data[12:16], "little")


def is_refined(data: bytes) -> bool:
    """Whether a record, of which the first bytes suffice, says that its state is refined."""
    return bool(_flags(data) & _IS_REFINED)


def content_hash(fingerprint: bytes, token_ids: Sequence[int] | npt.NDArray[np.integer]) -> bytes:
    """Names a state by what made it and what it has read: sha256 of fingerprint and token ids as 4-byte integers."""
    ids = np.ascontiguousarray(np.asarray(token_ids, dtype="<u4"))
    return hashlib.sha256(fingerprint + ids.tobytes()).digest()


def pack(
    layout: RecordLayout,
    location: Location,
    *,
    state: bytes | npt.NDArray[np.generic],
    tau: bytes | npt.NDArray[np.float32],
    token_ids: Sequence[int] | npt.NDArray[np.integer],
    suffix_array: npt.NDArray[np.integer] | None,
    fingerprint: bytes,
    refined: bool = False,
) -> bytearray:
    """Writes one record; ``refined`` where the state is more than reading the tokens gives.

    Raises:
        StateError: a part does not fit the layout.
    """
    state_view = state if isinstance(state, bytes) else state.tobytes()
    tau_view = tau if isinstance(tau, bytes) else tau.astype("<f4").tobytes()
    ids = np.asarray(token_ids)
    if len(state_view) != layout.state_bytes or len(tau_view) != layout.tau_bytes:
        given = f"state {len(state_view)} and tau {len(tau_view)} bytes"
        raise StateError("a state has another size than its corpus", given=given, expected=_sizes(layout))
    if ids.ndim != 1 or not 1 <= len(ids) <= layout.max_tokens:
        raise StateError("a record has no room for this chunk", given=f"{ids.size} tokens", expected=_sizes(layout))
    if ids.min() < 0 or ids.max() >= 1 << (8 * layout.token_width):
        raise StateError("a token id does not fit", given=int(ids.max()), expected=f"{layout.token_width} bytes")
    if suffix_array is not None and len(suffix_array) != len(ids):
        raise StateError("a suffix array is as long as its tokens", given=len(suffix_array), expected=len(ids))
    if len(fingerprint) != 32:
        raise StateError("a fingerprint has 32 bytes", given=len(fingerprint), expected=32)
    record = bytearray(layout.record_bytes)
    flags = (0 if suffix_array is None else _HAS_SUFFIX_ARRAY) | (_IS_REFINED if refined else 0)
    place = (location.segment, location.slot, layout.state_bytes, layout.tau_bytes)
    digest = content_hash(fingerprint, ids)
    _HEAD.pack_into(record, 0, RECORD_MAGIC, 0, FORMAT_VERSION, flags, len(ids), *place, fingerprint, digest)
    record[layout.state_offset : layout.state_offset + len(state_view)] = state_view
    record[layout.tau_offset : layout.tau_offset + len(tau_view)] = tau_view
    _put(record, layout.tokens_offset, ids.astype(layout.token_dtype))
    if suffix_array is not None:
        _put(record, layout.suffix_offset, np.asarray(suffix_array).astype(layout.position_dtype))
    _seal(record)
    return record


def relocate(record: bytes, location: Location) -> bytearray:
    """The same record for another place, checksum renewed."""
    moved = bytearray(record)
    struct.pack_into("<II", moved, 16, location.segment, location.slot)
    _seal(moved)
    return moved


def unpack(layout: RecordLayout, location: Location, data: bytes, hint: str | None = None) -> Record:
    """Checks every byte of a record, copying nothing.

    Raises:
        DamagedStateError: the bytes are not those that were written at this place.
    """
    if len(data) != layout.record_bytes:
        raise DamagedStateError(f"{location} is cut short: {len(data)} bytes", hint=hint)
    magic, crc, version, _, _, segment, slot, *_ = _HEAD.unpack_from(data)
    if magic != RECORD_MAGIC or zlib.crc32(memoryview(data)[8:]) != crc:
        raise DamagedStateError(f"{location} is damaged: its checksum does not match", hint=hint)
    if version != FORMAT_VERSION or segment != location.segment or slot != location.slot:
        given = f"format {version}, written as {Location(segment, slot)}"
        raise DamagedStateError(f"{location} is damaged: {given}", hint=hint)
    return Record(layout, data)


def _flags(data: bytes) -> int:
    return int.from_bytes(data[10:12], "little")


def _sizes(layout: RecordLayout) -> str:
    return f"state {layout.state_bytes} and tau {layout.tau_bytes} bytes, 1 to {layout.max_tokens} tokens"


def _put(record: bytearray, offset: int, values: npt.NDArray[np.integer]) -> None:
    record[offset : offset + values.nbytes] = values.tobytes()


def _seal(record: bytearray) -> None:
    struct.pack_into("<I", record, 4, zlib.crc32(memoryview(record)[8:]))


assert _HEAD.size <= RECORD_HEADER_BYTES
