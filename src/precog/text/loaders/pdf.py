"""PDF ▸ the paragraphs of each page."""

import logging
import re
import warnings
from collections.abc import Iterator
from math import ceil
from typing import BinaryIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError

from precog.errors import DocumentError
from precog.text.document import Draft, Warn

# pypdf reports every repaired oddity of a file through logging; what a reader must know is raised or warned here.
logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)

_TAIL_BYTES = 4_096
_MAX_SILENT_SHARE = 0.2
_PAGES_BETWEEN_PURGES = 16
_SENTENCE_END = re.compile(r"[.!?:;…。！？]['\"”’»)\]]*$")
_BULLET = re.compile(r"[•‣▪◦●○■□–—*·-] ")
_CONTROLS = dict.fromkeys((*range(32), *range(128, 160)), " ") | {0x7F: "•"}
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]$")


def pdf(stream: BinaryIO, warn: Warn) -> Iterator[Draft]:
    """Reads a PDF page by page.

    A damaged page is told and passed over, and so it is told when more than a fifth of the pages have no text.

    Raises:
        DocumentError: it is encrypted, truncated, damaged, or no page has text (a scan).
    """
    reader = _open(stream)
    num_pages = _num_pages(reader)
    silent: list[int] = []
    damage = ""
    for number in range(1, num_pages + 1):
        try:
            text = _page_text(reader, number)
        except _DamagedPage as error:
            warn(f"page {number} is damaged: {error}")
            text, damage = "", str(error)
        drafts = list(_paragraphs(text, number))
        if not drafts:
            silent.append(number)
        yield from drafts
        if number % _PAGES_BETWEEN_PURGES == 0:
            reader.resolved_objects.clear()
    if len(silent) == num_pages and damage:
        raise DocumentError("it is a damaged PDF", given=damage)
    if len(silent) == num_pages:
        raise DocumentError(
            f"none of its {num_pages} pages has text: it is a scan or pictures only",
            hint="run it through text recognition (OCR) first",
        )
    if len(silent) > _MAX_SILENT_SHARE * num_pages:
        warn(f"{len(silent)} of {num_pages} pages have no text: {_ranges(silent)}")


class _DamagedPage(Exception):
    """One page cannot be read."""


def _open(stream: BinaryIO) -> PdfReader:
    stream.seek(0, 2)
    size_bytes = stream.tell()
    stream.seek(max(0, size_bytes - _TAIL_BYTES))
    complete = b"%%EOF" in stream.read()
    stream.seek(0)
    if not complete:
        raise DocumentError("it is a truncated PDF: its end is missing")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = PdfReader(stream, strict=False)
            locked = reader.is_encrypted and not reader.decrypt("")
    except (DependencyError, FileNotDecryptedError) as error:
        raise _encrypted() from error
    except Exception as error:  # a damaged file can raise anything from inside the parser
        raise DocumentError("it is a damaged PDF", given=_one_line(error)) from error
    if locked:
        raise _encrypted()
    return reader


def _num_pages(reader: PdfReader) -> int:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            num_pages = len(reader.pages)
    except (DependencyError, FileNotDecryptedError) as error:
        raise _encrypted() from error
    except Exception as error:
        raise DocumentError("it is a damaged PDF", given=_one_line(error)) from error
    if num_pages == 0:
        raise DocumentError("it is a PDF without pages")
    return num_pages


def _page_text(reader: PdfReader, number: int) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return reader.pages[number - 1].extract_text()
    except (DependencyError, FileNotDecryptedError) as error:
        raise _encrypted() from error
    except Exception as error:
        raise _DamagedPage(_one_line(error)) from error


def _encrypted() -> DocumentError:
    return DocumentError("it is an encrypted PDF", hint="save a copy without a password")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _paragraphs(text: str, page: int) -> Iterator[Draft]:
    """Joins the printed lines of a page into paragraphs, and words that a line end had parted.

    A paragraph ends at a blank line, after a sentence whose line had room for the next word, and where a short line
    that does not run on (a heading) stands above a full one. Short lines among themselves stay lines.
    """
    lines = [" ".join(line.translate(_CONTROLS).split()) for line in text.splitlines()]
    widths = sorted(len(line) for line in lines if line)
    if not widths:
        return
    full_width = widths[ceil(0.9 * (len(widths) - 1))]
    words = before = ""
    for line in [*lines, ""]:
        if not words:
            words = line
        elif line and _HYPHENATED.search(words[-2:]) and line[0].islower():
            words = words[:-1] + line
        elif line and _BULLET.match(line):
            words += "\n" + line
        else:
            is_short = len(before) < 0.6 * full_width and not line[:1].islower()
            had_room = len(before) + 1 + len(line.split(" ", 1)[0]) <= 0.92 * full_width
            ends = had_room and _SENTENCE_END.search(before[-8:]) is not None
            if line and is_short and not ends and len(line) < 0.6 * full_width:
                words += "\n" + line
            elif not line or is_short or ends:
                yield Draft(words + "\n\n", page=page)
                words = line
            else:
                words += " " + line
        before = line


def _ranges(numbers: list[int]) -> str:
    """``1-3, 7`` for 1, 2, 3, 7; at most ten ranges."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:10])
    return shown + (", …" if len(ranges) > 10 else "")
