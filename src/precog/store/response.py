"""A stored response: what was said, and the state that the next one goes on from, as the bytes of a file.

Layout, little-endian::

    0    magic "PRRS", format (u16), two bytes of zeros
    8    sha256 (32 bytes) of bytes 40 … end of the JSON
    40   sha256 (32 bytes) of the state's bytes and τ
    72   fingerprint of the model (32 bytes)
    104  created, expires: seconds since 1970 (f64 each)
    120  tokens that the state has read (u64)
    128  bytes of the JSON (u32), of the state (u64), of τ (u64)
    148  JSON: id, previous, uses, response, items · state, as the FP32 codec writes it · τ
"""

import hashlib
import json
import re
import secrets
import struct
from dataclasses import dataclass, field

from precog.errors import DamagedStateError, ForeignStateError

_MAGIC, _FORMAT = b"PRRS", 1
_HEAD = struct.Struct("<4sHH32s32s32sddQIQQ")
_SEALED_FROM = 40
_ID = re.compile(r"resp_[0-9a-f]{48}")
HEAD_BYTES = _HEAD.size
Use = tuple[str, str]


def is_id(text: str) -> bool:
    """Whether a text may be the id of a response."""
    return _ID.fullmatch(text) is not None


def new_id() -> str:
    """An id that nobody can guess."""
    return f"resp_{secrets.token_hex(24)}"


@dataclass(frozen=True)
class StoredResponse:
    """A response, with all that the next one needs.

    Attributes:
        id: of it.
        previous: id of the one that it goes on from; None for the first of a conversation.
        uses: what it or one before it was made from: pairs of a kind, ``corpus`` or ``memory``, and a name.
        response: as it was answered, JSON.
        items: of its input, JSON.
        fingerprint: of the model, 64 hex digits.
        num_tokens: tokens that the state has read.
        state: its bytes, by the FP32 codec.
        decay_time: τ, little-endian FP32.
        created: seconds since 1970.
        expires: likewise.
    """

    id: str
    previous: str | None
    uses: frozenset[Use]
    response: dict[str, object]
    items: list[dict[str, object]]
    fingerprint: str
    num_tokens: int
    state: bytes = field(repr=False)
    decay_time: bytes = field(repr=False)
    created: float = 0.0
    expires: float = 0.0

    def to_bytes(self) -> bytes:
        """As the file has it."""
        said = {
            "id": self.id,
            "previous": self.previous,
            "uses": sorted(self.uses),
            "response": self.response,
            "items": self.items,
        }
        text = json.dumps(said, separators=(",", ":")).encode()
        sizes = (self.num_tokens, len(text), len(self.state), len(self.decay_time))
        read = self.state + self.decay_time
        seals = (b"\0" * 32, hashlib.sha256(read).digest(), bytes.fromhex(self.fingerprint))
        head = _HEAD.pack(_MAGIC, _FORMAT, 0, *seals, self.created, self.expires, *sizes)
        sealed = head[_SEALED_FROM:] + text
        return head[:8] + hashlib.sha256(sealed).digest() + sealed + read

    @classmethod
    def from_bytes(cls, data: bytes, response_id: str, *, with_state: bool = True) -> "StoredResponse":
        """Checks every byte.

        Args:
            data: of the file.
            response_id: that it is named by.
            with_state: whether the state is wanted; else the bytes up to the end of the JSON will do.

        Raises:
            DamagedStateError: they are not those that were written under this id.
        """
        if len(data) < _HEAD.size:
            raise _damage("it is cut short")
        magic, version, zeros, seal, state_seal, fingerprint, created, expires, *sizes = _HEAD.unpack_from(data)
        num_tokens, text_bytes, state_bytes, tau_bytes = sizes
        text_end = _HEAD.size + text_bytes
        if magic != _MAGIC or zeros or hashlib.sha256(memoryview(data)[_SEALED_FROM:text_end]).digest() != seal:
            raise _damage("its checksum does not match")
        if version != _FORMAT:
            raise _damage(f"its format is {version}")
        if with_state and len(data) != text_end + state_bytes + tau_bytes:
            raise _damage(f"it has {len(data)} bytes")
        if with_state and hashlib.sha256(memoryview(data)[text_end:]).digest() != state_seal:
            raise _damage("the checksum of its state does not match")
        said = json.loads(data[_HEAD.size : text_end])
        if said["id"] != response_id:
            raise _damage("it was written under another id")
        return cls(
            response_id,
            said["previous"],
            frozenset((kind, name) for kind, name in said["uses"]),
            said["response"],
            said["items"],
            fingerprint.hex(),
            num_tokens,
            data[text_end : text_end + state_bytes] if with_state else b"",
            data[text_end + state_bytes :] if with_state else b"",
            created,
            expires,
        )

    def check_model(self, fingerprint: str, name: str) -> None:
        """Refuses a model that cannot go on from the state.

        Raises:
            ForeignStateError: another one made it.
        """
        if self.fingerprint != fingerprint:
            raise ForeignStateError(
                "this response was made by another model, tokenizer, config or template",
                given=self.fingerprint[:12],
                expected=f"{name} ({fingerprint[:12]})",
                hint="begin a new conversation: leave previous_response_id away",
            )


def expiry_of(head: bytes) -> float:
    """When a response expires; never where its head is damaged, so that it is refused rather than lost."""
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return float("inf")
    return float(_HEAD.unpack_from(head)[7])


def text_bytes_of(head: bytes) -> int:
    """Bytes of the JSON after a head, as the head says; 0 where it is cut short."""
    return int(_HEAD.unpack(head)[9]) if len(head) == _HEAD.size else 0


def _damage(reason: str) -> DamagedStateError:
    return DamagedStateError(f"a stored response is damaged: {reason}", hint="delete it: DELETE /v1/responses/ID")
