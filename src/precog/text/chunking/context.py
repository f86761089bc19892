"""The lines that a chunk repeats from elsewhere so that it can be understood alone."""

from precog.text.chunking.piece import Piece
from precog.text.tokenizer import Tokenizer

_JOIN = " > "


class ContextWriter:
    """Writes the context of chunks: the heading path, then a table's header row or a turn's speaker.

    Args:
        tokenizer: counts.
        max_tokens: the most a context may take; outer headings are left out first, then the rest is cut short.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._last: tuple[tuple[tuple[str, ...], str], tuple[str, int]] = (((), ""), ("", 0))

    def write(self, first: Piece) -> tuple[str, int]:
        """The context of a chunk that begins with a piece, ending in a line feed if there is any, and its tokens."""
        lead = "" if first.text.startswith(first.lead) else first.lead
        key = (first.headings, lead)
        if self._last[0] != key:
            self._last = (key, self._fit(*key))
        return self._last[1]

    def _fit(self, headings: tuple[str, ...], lead: str) -> tuple[str, int]:
        text = ""
        for kept in range(len(headings) + 1):
            lines = [_JOIN.join(headings[kept:]), lead]
            text = "".join(f"{line}\n" for line in lines if line)
            num_tokens = len(self._tokenizer.encode(text))
            if num_tokens <= self._max_tokens:
                return text, num_tokens
        _, spans = self._tokenizer.encode_with_offsets(text)
        text = text[: spans[self._max_tokens - 2][0]].rstrip()
        text = f"{text}\n" if text else ""
        return text, len(self._tokenizer.encode(text))
