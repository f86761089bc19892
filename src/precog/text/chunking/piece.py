"""Pieces: the contiguous parts of a document that chunks are packed from, and how a large one is cut finer."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from precog.text.chunking.sentence import sentence_cuts
from precog.text.document import Block, Kind
from precog.text.tokenizer import Tokenizer

_WORD = re.compile(r"(?<=\S)(?=\s)")
_LINE = re.compile(r"(?<=\n)(?=.)", re.DOTALL)


class Piece(NamedTuple):
    """A contiguous part of the extracted text with what a chunk that begins with it needs to know.

    Attributes:
        text: its characters.
        start: offset of the first in the document's extracted text.
        num_tokens: how many tokens it takes in running text; exact but for its ends.
        page: 1-based page.
        kind: of the block it comes from.
        headings: titles it stands under.
        lead: a table's header row or a turn's speaker; "" where it has none or its text opens with it.
        opens: whether it begins a block.
    """

    text: str
    start: int
    num_tokens: int
    page: int | None
    kind: Kind
    headings: tuple[str, ...]
    lead: str
    opens: bool


def pieces_of(blocks: Iterable[Block], tokenizer: Tokenizer, *, counted: bool = True) -> Iterator[Piece]:
    """One piece per block; not counted (0 tokens) where all of them are cut finer anyway."""
    for block in blocks:
        num_tokens = len(tokenizer.encode(block.text)) if counted else 0
        yield Piece(block.text, block.start, num_tokens, block.page, block.kind, block.headings, block.lead, opens=True)


def by_sentence(piece: Piece, tokenizer: Tokenizer) -> list[Piece]:
    """Cuts a piece into sentences, or into lines where it is a table or code."""
    if piece.kind in ("table", "code"):
        cuts = [match.start() for match in _LINE.finditer(piece.text)]
    else:
        cuts = list(sentence_cuts(piece.text))
    if not cuts and piece.num_tokens:
        return [piece]
    ids, spans = tokenizer.encode_with_offsets(piece.text)
    return _cut(piece, cuts, [start for start, _ in spans], len(ids))


def by_word(piece: Piece, tokenizer: Tokenizer, max_tokens: int) -> list[Piece]:
    """Cuts a piece before the white space between words, and words over ``max_tokens`` between characters."""
    ids, spans = tokenizer.encode_with_offsets(piece.text)
    starts = [start for start, _ in spans]
    cuts: list[int] = []
    last = first = 0
    for end in [*(match.start() for match in _WORD.finditer(piece.text)), len(piece.text)]:
        limit = bisect_left(starts, end, lo=first)
        while limit - first > max_tokens:
            cut = starts[first + max_tokens]
            if cut <= last:  # a single character that takes more bytes than that
                cut = last + 1
                if cut >= end:
                    break
            cuts.append(cut)
            last, first = cut, bisect_left(starts, cut, lo=first)
        if end < len(piece.text):
            cuts.append(end)
            last, first = end, limit
    return _cut(piece, cuts, starts, len(ids))


def _cut(piece: Piece, cuts: Sequence[int], starts: Sequence[int], num_ids: int) -> list[Piece]:
    text, start, _, page, kind, headings, lead, _ = piece
    parts = []
    begin = first = 0
    for end in [*cuts, len(text)]:
        limit = num_ids if end == len(text) else bisect_left(starts, end, lo=first)
        opens = piece.opens and begin == 0
        parts.append(Piece(text[begin:end], start + begin, limit - first, page, kind, headings, lead, opens))
        begin, first = end, limit
    return parts
