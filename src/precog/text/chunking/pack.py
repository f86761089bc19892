"""Packs pieces into chunks that never exceed their token cap."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from precog.text.chunking.chunk import Chunk
from precog.text.chunking.context import ContextWriter
from precog.text.chunking.piece import Piece, by_sentence, by_word
from precog.text.tokenizer import Tokenizer

_MAX_WORD_TOKENS = 16

Closes = Callable[[Sequence[Piece], int, Piece], bool]


class Packer:
    """Fills the chunks of one document with its pieces, in order.

    A piece that does not fit behind the others opens the next chunk. One that fits no chunk, or comes while the chunk
    is less than a quarter full, is cut into sentences or lines, then words, then characters. A heading is not left
    behind at the end of a chunk, and no chunk spans two pages. What a chunk takes is counted once more on its whole
    text, so the cap holds whatever the tokenizer does at the seams.

    Args:
        source: of the document.
        tokenizer: counts and encodes.
        max_tokens: cap on the tokens of context and text.
        overlap: the most tokens that a chunk repeats of the one before.
        closes: whether a chunk of these pieces, which take so many tokens, is complete before that piece.
        with_context: whether chunks carry context.
    """

    def __init__(
        self, source: str, tokenizer: Tokenizer, max_tokens: int, overlap: int, closes: Closes, *, with_context: bool
    ) -> None:
        self._source = source
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._overlap = overlap
        self._closes = closes
        self._max_word_tokens = min(_MAX_WORD_TOKENS, max_tokens // 4)
        self._contexts = ContextWriter(tokenizer, max_tokens // 2) if with_context else None

    def pack(self, pieces: Iterable[Piece]) -> Iterator[Chunk]:
        """Yields the chunks of the document."""
        unread = iter(pieces)
        waiting: deque[Piece] = deque()
        repeated: list[Piece] = []  # of the chunk before
        new: list[Piece] = []
        num_tokens = 0  # of both
        index, last_start = 0, -1
        while True:
            piece = waiting.popleft() if waiting else next(unread, None)
            if piece is None and not new:
                return
            complete = piece is None or bool(
                new and (piece.page != new[-1].page or self._closes(new, num_tokens, piece))
            )
            if piece is not None and not complete:
                if not new and repeated and piece.page != repeated[-1].page:
                    repeated, num_tokens = [], 0
                if self._budget(repeated, new, piece) >= num_tokens + piece.num_tokens:
                    new.append(piece)
                    num_tokens += piece.num_tokens
                    continue
                if not new and repeated:
                    num_tokens -= repeated.pop(0).num_tokens
                    waiting.appendleft(piece)
                    continue
                if (
                    num_tokens < self._max_tokens // 4
                    or all(entry.kind == "heading" for entry in new)
                    or piece.num_tokens > self._budget([], [], piece)
                ):
                    finer = self._refine(piece)
                    if len(finer) > 1:
                        waiting.extendleft(reversed(finer))
                        continue
                if not new:
                    new.append(piece)
                    num_tokens += piece.num_tokens
                    continue
            if piece is not None:
                waiting.appendleft(piece)
            taken, put_back, chunk = self._emit(repeated, new, piece, index)
            waiting.extendleft(reversed(put_back))
            if chunk is not None:
                yield chunk
                index, last_start = index + 1, chunk.span[0]
            repeated = self._tail(taken, last_start)
            new = []
            num_tokens = sum(entry.num_tokens for entry in repeated)

    def _budget(self, repeated: Sequence[Piece], new: Sequence[Piece], piece: Piece) -> int:
        """Tokens left for text in a chunk of these pieces."""
        first = repeated[0] if repeated else new[0] if new else piece
        return self._max_tokens - self._context(first)[1]

    def _context(self, first: Piece) -> tuple[str, int]:
        return self._contexts.write(first) if self._contexts is not None else ("", 0)

    def _refine(self, piece: Piece) -> list[Piece]:
        finer = by_sentence(piece, self._tokenizer)
        return finer if len(finer) > 1 else by_word(piece, self._tokenizer, self._max_word_tokens)

    def _emit(
        self, repeated: list[Piece], new: list[Piece], following: Piece | None, index: int
    ) -> tuple[list[Piece], list[Piece], Chunk | None]:
        """The pieces that went into a chunk, those to be packed again, and the chunk, unless it is all white space."""
        num_kept = len(new)
        if following is not None and following.page == new[-1].page:
            while num_kept and new[num_kept - 1].kind == "heading":
                num_kept -= 1
        kept, put_back = (new[:num_kept], new[num_kept:]) if num_kept else (new, [])
        while kept:
            if all(piece.text.isspace() for piece in kept):
                return [*repeated, *kept], put_back, None
            chunk = self._chunk([*repeated, *kept], index)
            if len(chunk.token_ids) <= self._max_tokens:
                return [*repeated, *kept], put_back, chunk
            if repeated:
                repeated = []
            elif len(kept) > 1:
                put_back.insert(0, kept.pop())
            else:
                finer = self._refine(kept.pop())
                assert len(finer) > 1, "a word never exceeds the cap"
                put_back[:0] = finer
        return [], put_back, None

    def _chunk(self, pieces: Sequence[Piece], index: int) -> Chunk:
        whole = "".join(piece.text for piece in pieces)
        text = whole.strip()
        first_char = whole.index(text[0])
        if pieces[0].kind == "code":  # indentation means something there
            first_char = whole.rfind("\n", 0, first_char) + 1
            text = whole[first_char:].rstrip()
        first = next(piece for piece in pieces if not piece.text.isspace())
        context, _ = self._context(first)
        start = pieces[0].start + first_char
        token_ids = tuple(self._tokenizer.encode(context + text))
        return Chunk(text, context, token_ids, self._source, first.page, (start, start + len(text)), index)

    def _tail(self, pieces: Sequence[Piece], after: int) -> list[Piece]:
        """The last pieces of a chunk, those that begin after an offset, that the next one repeats."""
        tail: list[Piece] = []
        room = self._overlap
        for piece in reversed(pieces):
            if not room:
                break
            words = [piece] if piece.num_tokens <= room else by_word(piece, self._tokenizer, self._max_word_tokens)
            for word in reversed(words):
                if word.num_tokens > room or word.start <= after:
                    return tail[::-1]
                tail.append(word)
                room -= word.num_tokens
        return tail[::-1]
