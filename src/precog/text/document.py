"""A document: where it came from, and its extracted text as a stream of blocks.

The *extracted text* of a document is ``"".join(block.text for block in document.blocks())``: every block carries the
line feeds that follow it, and every character offset in the project counts characters of this text. It is never held
as a whole.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from precog.errors import DocumentError

Kind = Literal["paragraph", "heading", "table", "code", "turn"]
Warn = Callable[[str], None]

MAX_BLOCK_CHARS = 16_384
_MAX_TITLE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Block:
    """One paragraph, heading, definition or turn, or some rows of a table: a contiguous piece of the extracted text.

    Attributes:
        text: its characters, the line feeds after it included.
        start: offset of its first character in the document's extracted text.
        kind: what it is.
        page: 1-based page it stands on; None where the format has no pages.
        headings: titles it stands under, outermost first (for code, the definitions that enclose it); a heading's own
            title is not among them.
        lead: what a later part of it needs to be understood: a table's header row, a turn's speaker; else "".
    """

    text: str
    start: int
    kind: Kind = "paragraph"
    page: int | None = None
    headings: tuple[str, ...] = ()
    lead: str = ""

    @property
    def end(self) -> int:
        """Offset just after its last character in the document's extracted text."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a loader yields: a block that does not yet know its offset and headings.

    Attributes:
        text: its characters, the line feeds after it included.
        kind: what it is.
        page: 1-based page it stands on.
        level: of a heading, 1 the outermost.
        title: of a heading, its words without markup.
        inside: enclosing definitions of code, outermost first.
        lead: see `Block`.
    """

    text: str
    kind: Kind = "paragraph"
    page: int | None = None
    level: int = 0
    title: str = ""
    inside: tuple[str, ...] = ()
    lead: str = ""


def ignore(_message: str) -> None:
    """Hear a warning and do nothing."""


@dataclass(frozen=True, slots=True)
class Document:
    """One readable source.

    Attributes:
        source: printable identity, unique in a corpus: an absolute path or "stdin".
        media_type: such as "text/markdown".
        sha256: hex digest of the raw bytes.
        drafts: opens the source anew and yields its drafts.
        encoding: of the characters, where the format does not fix it; else "".
    """

    source: str
    media_type: str
    sha256: str
    drafts: Callable[[Warn], Iterator[Draft]] = field(repr=False, compare=False)
    encoding: str = ""

    def blocks(self, warn: Warn = ignore) -> Iterator[Block]:
        """Reads the source from its beginning and yields its blocks in order, a few at a time in memory.

        Args:
            warn: told, in one line each, what was read only in part (pages without text, undecodable bytes).

        Raises:
            DocumentError: the source is damaged, or it ended and there was no text in it. Blocks may have been
                yielded before: whoever keeps them must drop them again.
        """
        path: list[tuple[int, str]] = []
        start = 0
        anything = False
        for draft in self.drafts(warn):
            text = _clean(draft.text)
            if draft.kind == "heading":
                path = [entry for entry in path if entry[0] < draft.level]
            headings = (*(title for _, title in path), *draft.inside)
            for part in _bounded(text):
                yield Block(part, start, draft.kind, draft.page, headings, draft.lead)
                start += len(part)
            anything = anything or bool(text and not text.isspace())
            if draft.kind == "heading" and draft.title:
                path.append((draft.level, _clean(draft.title)[:_MAX_TITLE_CHARS]))
        if not anything:
            raise DocumentError("there is no text in it", given=self.source)


def document_text(document: Document) -> str:
    """The whole extracted text: for tests and for small documents."""
    return "".join(block.text for block in document.blocks())


def _clean(text: str) -> str:
    """The same text in valid Unicode, without NUL; as long as before unless surrogates were paired."""
    if "\x00" in text:
        text = text.replace("\x00", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _bounded(text: str) -> Iterator[str]:
    """Cuts a text into parts of at most MAX_BLOCK_CHARS characters, after a line feed or a space where there is one."""
    position = 0
    while len(text) - position > MAX_BLOCK_CHARS:
        limit = position + MAX_BLOCK_CHARS
        cut = text.rfind("\n", position, limit) + 1
        if cut <= position:
            cut = text.rfind(" ", position, limit) + 1
        if cut <= position:
            cut = limit
        yield text[position:cut]
        position = cut
    if position < len(text):
        yield text[position:]
