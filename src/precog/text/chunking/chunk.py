"""What is read, stored and retrieved as one: a chunk."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """A contiguous part of one document, with the words it needs from elsewhere.

    Attributes:
        text: exactly the characters ``span`` of the document's extracted text.
        context: heading path, repeated table header or speaker before it, ending in a line feed; "" if there is none.
        token_ids: of ``context + text``, without the boundary.
        document: source of the document.
        page: 1-based page on which it stands; None where the format has no pages.
        span: ``(start, end)`` in characters of the document's extracted text.
        index: its number in the document, from 0.
    """

    text: str
    context: str
    token_ids: tuple[int, ...]
    document: str
    page: int | None
    span: tuple[int, int]
    index: int

    @property
    def full_text(self) -> str:
        """What the model reads: ``context + text``."""
        return self.context + self.text

    def span_in_document(self, start: int, end: int) -> tuple[int, int] | None:
        """Where the characters ``start:end`` of `full_text` stand in the document; None if they are all context."""
        offset = self.span[0] - len(self.context)
        if end <= len(self.context):
            return None
        return max(start, len(self.context)) + offset, end + offset
