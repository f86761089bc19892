"""The parts of a chunk that questions ask about one at a time: its sentences and the rows of its tables."""

import itertools
import re
from collections.abc import Iterator

from precog.text.chunking.sentence import sentence_cuts

LEAST_CHARS = 24
"""What is shorter belongs to the sentence before it, as "Yes." or an initial; alone in its paragraph it is no part."""
LONG_CHARS = 600
"""A sentence of more characters is no sentence but a list, and is parted at the ends of its lines."""
_LINE = re.compile(r"\n\s*(?=\S)")
_WHOLE_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_WORD = re.compile(r"\w")

Span = tuple[int, int]


def parts_of(text: str) -> list[Span]:
    """First character and the one after the last of every part, white space around them left out.

    No part crosses a blank line or a heading of Markdown. Headings are no parts: they hold no answer, but the words of
    many a question.

    Args:
        text: of a chunk.

    Returns:
        The parts in order; none where the text is a single part.
    """
    parts = [part for start, stop, is_row in _blocks(text) for part in _parts_of_block(text, start, stop, is_row)]
    return parts if len(parts) > 1 else []


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Rows of tables, each alone, and the lines that stand together between them, headings and blank lines."""
    lines = [(match.start(), match.end()) for match in _WHOLE_LINE.finditer(text)]
    have_bars = [False, *("|" in text[start:stop] for start, stop in lines), False]
    begin: int | None = None
    for number, (start, stop) in enumerate(lines, 1):
        line = text[start:stop]
        is_row = have_bars[number] and (have_bars[number - 1] or have_bars[number + 1])
        if is_row or not line.strip() or _HEADING.match(line):
            if begin is not None:
                yield begin, start, False
            begin = None
            if is_row and _WORD.search(line):  # the rule below the names of columns has none
                yield start, stop, True
        elif begin is None:
            begin = start
    if begin is not None:
        yield begin, len(text), False


def _parts_of_block(text: str, start: int, stop: int, is_row: bool) -> list[Span]:
    if is_row:
        return [_stripped(text, start, stop)]
    cuts = [start, *(start + cut for cut in sentence_cuts(text[start:stop])), stop]
    parts: list[Span] = []
    for piece in (piece for begin, end in itertools.pairwise(cuts) for piece in _lines(text, begin, end)):
        begin, end = _stripped(text, *piece)
        if end <= begin:
            continue
        if parts and (end - begin < LEAST_CHARS or parts[-1][1] - parts[-1][0] < LEAST_CHARS):
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((begin, end))
    return [(begin, end) for begin, end in parts if end - begin >= LEAST_CHARS]


def _stripped(text: str, start: int, stop: int) -> Span:
    inner = text[start:stop]
    return start + len(inner) - len(inner.lstrip()), stop - len(inner) + len(inner.rstrip())


def _lines(text: str, start: int, stop: int) -> list[Span]:
    if stop - start <= LONG_CHARS:
        return [(start, stop)]
    cuts = [start, *(match.end() for match in _LINE.finditer(text, start, stop)), stop]
    return list(itertools.pairwise(cuts))
