"""Document ▸ chunks, by one of five strategies."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from precog.errors import UsageError
from precog.text.chunking.chunk import Chunk
from precog.text.chunking.pack import Closes, Packer
from precog.text.chunking.piece import Piece, by_sentence, by_word, pieces_of
from precog.text.document import Document, Warn, ignore
from precog.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 256
MIN_MAX_TOKENS = 16
_WINDOW_WORD_TOKENS = 4


class Strategy(StrEnum):
    """How a document is parted.

    DOCUMENT: paragraphs, tables and definitions packed up to the cap, a section's beginning opening a new chunk once
        the chunk is a quarter full; heading path and table header go with every part.
    PARAGRAPH: every paragraph (with the headings right above it) is one chunk.
    SENTENCE: whole sentences packed up to the cap.
    WINDOW: as many words as the cap allows.
    TURNS: whole turns of a conversation packed up to the cap, a long turn's speaker going with every part.
    """

    DOCUMENT = "document"
    PARAGRAPH = "paragraph"
    SENTENCE = "sentence"
    WINDOW = "window"
    TURNS = "turns"


def chunk_document(
    document: Document,
    tokenizer: Tokenizer,
    *,
    strategy: Strategy = Strategy.DOCUMENT,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    overlap: int = 0,
    warn: Warn = ignore,
) -> Iterator[Chunk]:
    """Reads a document and yields its chunks in order, a few blocks at a time in memory.

    The spans of the chunks cover all text but white space, in order; only ``overlap`` makes them overlap. The same
    bytes give the same chunks.

    Args:
        document: read once, from its beginning.
        tokenizer: counts and encodes.
        strategy: how it is parted.
        max_tokens: cap on the tokens of a chunk's context and text, without the boundary.
        overlap: the most tokens that a chunk repeats of the one before, on the same page.
        warn: see `Document.blocks`.

    Raises:
        UsageError: the cap is under 16 tokens or the overlap over half of it.
        DocumentError: see `Document.blocks`.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise UsageError("the chunk size is too small", given=max_tokens, expected=f"at least {MIN_MAX_TOKENS} tokens")
    if not 0 <= overlap <= max_tokens // 2:
        raise UsageError("the overlap does not fit the chunk size", given=overlap, expected=f"0 to {max_tokens // 2}")
    counted = strategy not in (Strategy.SENTENCE, Strategy.WINDOW)
    pieces = pieces_of(document.blocks(warn), tokenizer, counted=counted)
    closes: Closes = _never
    if strategy is Strategy.DOCUMENT:
        closes = _section_begins(max_tokens // 4)
    elif strategy is Strategy.PARAGRAPH:
        closes = _paragraph_begins
    elif strategy is Strategy.SENTENCE:
        pieces = (part for piece in pieces for part in by_sentence(piece, tokenizer))
    elif strategy is Strategy.WINDOW:
        pieces = _words(pieces, tokenizer)
    with_context = strategy in (Strategy.DOCUMENT, Strategy.TURNS)
    packer = Packer(document.source, tokenizer, max_tokens, overlap, closes, with_context=with_context)
    return packer.pack(pieces)


def _words(pieces: Iterable[Piece], tokenizer: Tokenizer) -> Iterator[Piece]:
    for piece in pieces:
        yield from by_word(piece, tokenizer, _WINDOW_WORD_TOKENS)


def _never(_pieces: Sequence[Piece], _num_tokens: int, _following: Piece) -> bool:
    return False


def _section_begins(min_tokens: int) -> Closes:
    def closes(pieces: Sequence[Piece], num_tokens: int, following: Piece) -> bool:
        return (
            following.kind == "heading"
            and following.opens
            and num_tokens >= min_tokens
            and any(piece.kind != "heading" for piece in pieces)
        )

    return closes


def _paragraph_begins(pieces: Sequence[Piece], _num_tokens: int, following: Piece) -> bool:
    return following.opens and pieces[-1].kind != "heading"
