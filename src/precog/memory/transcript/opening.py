"""What stands in a file of what was said, which may be compressed."""

import gzip
import io
import lzma
import zlib
from dataclasses import dataclass
from pathlib import Path

import zstandard

from precog.errors import DocumentError, InputError
from precog.text.encoding import RawFacts, detect_encoding

MAX_TEXT_BYTES = 1 << 29
_SAMPLE_BYTES = 1 << 16
_MAX_RATIO = 200
_RATIO_FROM_BYTES = 8 << 20
_STEP_BYTES = 1 << 10  # which one step of the zstd reader makes 32 MB of at the most
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


def read_bytes(path: Path, what: str = "transcript") -> bytes:
    """What stands in a file; ``what`` it is, for errors.

    Raises:
        InputError: it cannot be read, or is larger than 512 MB.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise InputError(f"the {what} cannot be read", given=path, hint=error.strerror or str(error)) from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"the {what} cannot be read", given=repr(str(path)), hint=str(error)) from error
    return _bounded(data, str(path), what)


def unpacked(data: bytes, name: str, what: str = "transcript") -> bytes:
    """The bytes that gzip, xz or zstd have packed, whatever the name says; others as they are.

    Raises:
        InputError: they are damaged or cut short, more than 512 MB, or a decompression bomb.
    """
    limit = min(MAX_TEXT_BYTES, max(_RATIO_FROM_BYTES, _MAX_RATIO * len(data)))
    try:
        found = _unpacked(data, limit)
        if found is not data and limit < len(found) <= MAX_TEXT_BYTES:
            given, expected = f"{name}: {len(data)} bytes", f"text, which packs to no less than 1/{_MAX_RATIO}"
            raise InputError("it is a decompression bomb", given=given, expected=expected)
        return _bounded(found, name, what)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise InputError(f"the compressed {what} is damaged", given=name, hint=str(error)) from error


@dataclass(frozen=True)
class Opened:
    """The text of a file.

    Attributes:
        text: with LF line ends.
        num_undecoded: places that could not be decoded, and that read U+FFFD.
        notes: one line for people about what is not as it stands in the file.
    """

    text: str
    num_undecoded: int = 0
    notes: tuple[str, ...] = ()


def text_of(data: bytes, name: str) -> Opened:
    """The text of a file, and what of its bytes was not read as UTF-8.

    Args:
        data: all bytes; gzip, xz and zstd are unpacked, whatever the name says.
        name: of the file, for errors.

    Raises:
        InputError: it is empty, damaged, binary, or larger than 512 MB.
    """
    data = unpacked(data, name)
    if not data.strip():
        raise InputError("the transcript is empty", given=name)
    try:
        encoding, _ = detect_encoding(_facts(data))
    except DocumentError as error:
        raise InputError("the transcript is binary data, not text", given=name) from error
    fault = _fault(data, "utf-8")
    if fault is not None and not encoding.startswith("utf") and _is_rather_utf8(data):
        encoding = "utf-8"
    text = data.decode(encoding, "replace")
    num_undecoded = text.count("\ufffd") - (data.count(b"\xef\xbf\xbd") if encoding.startswith("utf-8") else 0)
    notes = []
    if fault is not None and not encoding.startswith("utf"):
        notes.append(f"byte {fault} is not UTF-8: all of the file is read as {encoding}")
    if num_undecoded > 0:
        places = "1 undecodable place" if num_undecoded == 1 else f"{num_undecoded} undecodable places"
        first = "at" if num_undecoded == 1 else "the first at"
        notes.append(f"{places} read as U+FFFD, {first} byte {_fault(data, encoding)}")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Opened(text, max(0, num_undecoded), tuple(notes))


def _fault(data: bytes, encoding: str) -> int | None:
    """The first byte that an encoding does not have there."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    return None


def _is_rather_utf8(data: bytes) -> bool:
    """Whether more of what is not ASCII reads as UTF-8 than does not: then a few bytes are damaged, and no others."""
    text = data.decode("utf-8", "replace")
    num_bad = text.count("\ufffd")
    return sum(char >= "\x80" for char in text) - num_bad >= num_bad


def _facts(data: bytes) -> RawFacts:
    try:
        data.decode()
        return RawFacts("", len(data), data[:_SAMPLE_BYTES], valid_utf8=True, around_fault=b"")
    except UnicodeDecodeError as error:
        first = max(0, error.start - _SAMPLE_BYTES // 2)
        around = data[first : first + _SAMPLE_BYTES]
    return RawFacts("", len(data), data[:_SAMPLE_BYTES], valid_utf8=False, around_fault=around)


def _bounded(data: bytes, name: str, what: str) -> bytes:
    if len(data) > MAX_TEXT_BYTES:
        raise InputError(
            f"the {what} is too large", given=name, expected="at most 512 MB of text", hint="cut it into several"
        )
    return data


def _unpacked(data: bytes, limit: int) -> bytes:
    """The same, unpacked, but not much more than the limit of it."""
    if data.startswith(_GZIP):
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as gzip_file:
            return gzip_file.read(limit + 1)
    if data.startswith(_XZ):
        with lzma.LZMAFile(io.BytesIO(data)) as xz_file:
            return xz_file.read(limit + 1)
    if data.startswith(_ZSTD):
        return _of_zstd(data, limit)
    return data


def _of_zstd(data: bytes, limit: int) -> bytes:
    """The bytes of all frames; the library's own reader takes a file cut short for a whole one."""
    unpacked = bytearray()
    frame = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    for start in range(0, len(data), _STEP_BYTES):
        step = data[start : start + _STEP_BYTES]
        while step:
            unpacked += frame.decompress(step)
            begun, step = True, b""
            if frame.eof:
                step, begun = frame.unused_data, False
                frame = zstandard.ZstdDecompressor().decompressobj()
        if len(unpacked) > limit:
            return bytes(unpacked[: limit + 1])
    if begun:
        raise EOFError("it ends within a compressed frame")
    return bytes(unpacked)
