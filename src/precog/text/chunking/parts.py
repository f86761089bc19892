"""The parts of a chunk that questions ask about one at a time: its sentences, as characters of its text."""

import itertools
import re

from precog.text.chunking.sentence import sentence_cuts

LEAST_CHARS = 24
"""What is shorter belongs to the sentence before it: a heading's number, "Yes.", an initial."""
LONG_CHARS = 600
"""A sentence of more characters is no sentence but a list or a table, and is parted at the ends of its lines."""
_LINE = re.compile(r"\n\s*(?=\S)")


def parts_of(text: str) -> list[tuple[int, int]]:
    """First character and the one after the last of every part, white space around them left out.

    Args:
        text: of a chunk.

    Returns:
        The parts in order, covering everything but white space; none where the text is a single part.
    """
    cuts = [0, *sentence_cuts(text), len(text)]
    pieces = [piece for start, stop in itertools.pairwise(cuts) for piece in _lines(text, start, stop)]
    parts: list[tuple[int, int]] = []
    for start, stop in pieces:
        inner = text[start:stop]
        start, stop = start + len(inner) - len(inner.lstrip()), stop - len(inner) + len(inner.rstrip())
        if stop <= start:
            continue
        if parts and (stop - start < LEAST_CHARS or parts[-1][1] - parts[-1][0] < LEAST_CHARS):
            parts[-1] = (parts[-1][0], stop)
        else:
            parts.append((start, stop))
    return parts if len(parts) > 1 else []


def _lines(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    if stop - start <= LONG_CHARS:
        return [(start, stop)]
    cuts = [start, *(match.end() for match in _LINE.finditer(text, start, stop)), stop]
    return list(itertools.pairwise(cuts))
