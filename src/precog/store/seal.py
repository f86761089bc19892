"""Checksums of catalogue rows: what a folder was made with, what a chunk says and where it stands, and its keys.

The rows are SQLite's, which notices a torn page but not a flipped bit. Formulas, for outsiders, in ``docs/format.md``.
"""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence


def seal_of_chunk(
    source: str, place: Sequence[int | None], text: str, context: str, details: str, content_hash: bytes
) -> bytes:
    """SHA-256 over everything a chunk says.

    Args:
        source: of its document.
        place: ordinal, page, first character and the one after the last.
        text: its text.
        context: what was put before it.
        details: JSON, as it is stored.
        content_hash: of its state.
    """
    said = [source, *place, text, context, details, content_hash.hex()]
    # ASCII, so that text which is not valid Unicode has one form, too
    return hashlib.sha256(json.dumps(said, separators=(",", ":"), ensure_ascii=True).encode()).digest()


def seal_of_settings(settings: Mapping[str, str]) -> str:
    """SHA-256, in hexadecimal, over what a folder was made with: names and values, by rising name."""
    said = ["meta", *([name, settings[name]] for name in sorted(settings))]
    return hashlib.sha256(json.dumps(said, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def seal_of_keys(chunk_seal: bytes, num_windows: int, vectors: bytes) -> bytes:
    """SHA-256 over the keys of a chunk, bound to the chunk."""
    return hashlib.sha256(chunk_seal + struct.pack("<I", num_windows) + vectors).digest()


def seal_of_part(
    chunk_seal: bytes, place: Sequence[int], content_hash: bytes, num_windows: int, vectors: bytes
) -> bytes:
    """SHA-256 over a part of a chunk, bound to the chunk: ordinal, first character and the one after the last, the
    content hash of its state, and its keys.
    """
    said = struct.pack("<3q", *place) + content_hash + struct.pack("<I", num_windows)
    return hashlib.sha256(chunk_seal + said + vectors).digest()
