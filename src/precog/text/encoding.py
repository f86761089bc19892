"""Which encoding the bytes of a text file are in, or that they are no text."""

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from io import TextIOWrapper
from typing import BinaryIO

from charset_normalizer import from_bytes

from precog.errors import DocumentError

_READ_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 16
_MAX_LINE_CHARS = 1 << 16
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z][\w.:-]{1,30})""", re.IGNORECASE)
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\f\v\b\x1b")
_CONTROL_BYTES = bytes(sorted(_CONTROLS))
_CONTROL_CHARS = frozenset(map(chr, _CONTROLS)) | frozenset(map(chr, range(0x7F, 0xA0))) - {"\x85"}
_MAX_CONTROL_SHARE = 0.01
_ASIAN_PAUSES = frozenset("\n \u3000\u3001\u3002\uff0c")
# What European files outside UTF-8 are in, likeliest first, with the letters and signs one expects there. General
# detectors compare dozens of tables and take French for Hungarian when a sample is short.
_WESTERN = "éèêëàâçîïôûùüöäßñáíóúãõåæøœ¿¡«»‹›£€„“”‘’–—…°§•·©®™ªºÿðþý"
_CENTRAL = "ąćęłńóśźżáčďéěíňřšťúůýžäöüßôĺľŕőűăâîşţđ§°„“”‚‘’«»–—…€"
_TURKISH = "ğüşöçıâîû„“”‘’«»–—…€"
_EUROPEAN = (("cp1252", _WESTERN), ("iso8859_2", _CENTRAL), ("cp1250", _CENTRAL), ("cp1254", _TURKISH))
_MAX_LATIN_SHARE = 0.5  # of bytes over 0x7F in a line written in the Latin script


@dataclass(frozen=True, slots=True)
class RawFacts:
    """What one pass over the bytes of a source tells.

    Attributes:
        sha256: hex digest of all bytes.
        num_bytes: how many there are.
        head: the first 64 KB.
        valid_utf8: whether all of them are UTF-8.
        around_fault: up to 64 KB from shortly before the first byte that is not; else empty.
    """

    sha256: str
    num_bytes: int
    head: bytes
    valid_utf8: bool
    around_fault: bytes


def survey(stream: BinaryIO) -> RawFacts:
    """Reads a stream once, to its end, without keeping it."""
    digest = sha256()
    num_bytes = 0
    head = around_fault = before = b""
    valid = True
    decoder = codecs.getincrementaldecoder("utf-8")()
    while data := stream.read(_READ_BYTES):
        digest.update(data)
        if num_bytes == 0:
            head = data[:_SAMPLE_BYTES]
        num_bytes += len(data)
        if valid:
            try:
                decoder.decode(data)
            except UnicodeDecodeError as error:
                valid = False
                at = max(0, error.start - _SAMPLE_BYTES // 2)
                around_fault = (before[-256:] + data)[at : at + _SAMPLE_BYTES]
        before = data
    if valid:
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            valid = False
            around_fault = before[-_SAMPLE_BYTES:]
    return RawFacts(digest.hexdigest(), num_bytes, head, valid, around_fault)


def detect_encoding(facts: RawFacts) -> tuple[str, bool]:
    """The encoding of a text file, and whether every byte of it is expected to decode.

    Raises:
        DocumentError: the bytes are no text in any encoding.
    """
    for mark, encoding in _BOMS:
        if facts.head.startswith(mark):
            _refuse_controls(facts.head.decode(encoding, "ignore"))
            return encoding, True
    sixteen = _utf16_without_mark(facts.head)
    if sixteen:
        return sixteen, True
    for sample in (facts.head, facts.around_fault):
        controls = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
        if b"\x00" in sample or controls > _MAX_CONTROL_SHARE * len(sample):
            raise DocumentError("it is binary data, not text", hint="give it the ending of its format")
    if facts.valid_utf8:
        return "utf-8", True
    if _nearly_utf8(facts.around_fault):
        return "utf-8", False
    return _legacy(facts.head + facts.around_fault), False


def text_lines(stream: BinaryIO, encoding: str) -> Iterator[str]:
    """The lines of a text file with their line feeds (CR and CRLF become LF); a line over 64 K characters in pieces."""
    errors = "replace"
    with TextIOWrapper(stream, encoding=encoding, errors=errors, newline=None) as text:
        while line := text.readline(_MAX_LINE_CHARS):
            yield line


def declared_encoding(head: bytes) -> str:
    """The encoding that a web page names for itself; "" if it names none that exists."""
    match = _CHARSET.search(head[:4096])
    if match is None:
        return ""
    try:
        return codecs.lookup(match[1].decode("ascii")).name
    except LookupError:
        return ""


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file look like no text in any encoding."""
    try:
        detect_encoding(RawFacts("", len(head), head, valid_utf8=True, around_fault=b""))
    except DocumentError:
        return True
    return False


def _refuse_controls(text: str) -> None:
    controls = sum(map(text.count, _CONTROL_CHARS))
    if controls > _MAX_CONTROL_SHARE * len(text):
        raise DocumentError("it is binary data, not text", hint="give it the ending of its format")


def _utf16_without_mark(head: bytes) -> str:
    """The name of the 16-bit encoding whose text these bytes are; "" if they are not."""
    head = head[: len(head) // 2 * 2]
    if b"\x00" not in head:  # even in a script without ASCII a line feed has one
        return ""
    zeros_even, zeros_odd = head[::2].count(0), head[1::2].count(0)
    candidates = ("utf-16-le", "utf-16-be") if zeros_odd >= zeros_even else ("utf-16-be", "utf-16-le")
    for encoding in candidates:
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(head)
        except UnicodeDecodeError:
            continue
        strange = sum(unicodedata.category(char) in {"Cn", "Co", "Cs"} or char in _CONTROL_CHARS for char in text)
        pauses = sum(char in _ASIAN_PAUSES for char in text)
        if strange <= 0.01 * len(text) and pauses >= 0.01 * len(text):
            return encoding
    return ""


def _nearly_utf8(sample: bytes) -> bool:
    """Whether a file is UTF-8 with a few damaged bytes rather than in another encoding."""
    text = sample.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(char >= "\x80" for char in text) - bad
    return good >= 9 * bad


def _legacy(sample: bytes) -> str:
    """The most plausible of the old 8-bit and East Asian encodings."""
    lines = [line for line in sample.splitlines(keepends=True) if not line.isascii()]
    telling = b"".join(lines)[: _SAMPLE_BYTES // 4]
    high = sum(byte >= 0x80 for byte in telling)
    if high > _MAX_LATIN_SHARE * len(b"".join(telling.split())):
        best = from_bytes(telling).best()
        if best is not None:
            return best.encoding
    return max(_EUROPEAN, key=lambda pair: _plausibility(telling, *pair))[0]


def _plausibility(sample: bytes, encoding: str, expected: str) -> int:
    """How many more characters beyond ASCII are expected in such a text than are not."""
    text = sample.decode(encoding, "replace")
    if {"õ", "û"} <= set(text.lower()):  # no language has both: they are what ő and ű of Hungarian look like
        expected = expected.replace("õ", "").replace("û", "")
    score = 0
    for before, char, after in zip(" " + text, text, text[1:] + " ", strict=False):
        if char < "\x80":
            continue
        score += 1 if char.lower() in expected else -1
        if before.isalpha() and (
            (char.isupper() and before.islower()) or (not char.isalpha() and char not in "’·" and after.isalpha())
        ):
            score -= 1
    return score
