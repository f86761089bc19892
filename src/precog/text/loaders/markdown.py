"""Markdown ▸ headings, paragraphs, tables and code, with the source text kept character by character."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from precog.text.document import MAX_BLOCK_CHARS, Draft

_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s)")
_CLOSING_MARKS = re.compile(r"(?<=\s)#++$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*\n?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?$")
_MARKUP = re.compile(r"[*_`]|!?\[([^\]]*)\]\([^)]*\)")
_MAX_TITLE_CHARS = 500
_PARAGRAPH = Draft("")


def markdown(lines: Iterable[str]) -> Iterator[Draft]:
    """Groups the lines of a Markdown file; every line is kept, a blank one with the block before it."""
    block = _Growing()
    for line in lines:
        if block.num_chars >= MAX_BLOCK_CHARS:
            yield from block.take(block.shape)
        if block.fence:
            block.add(line)
            if _closes(line, block.fence):
                block.fence, block.complete = "", True
        elif line.isspace():
            block.add(line)
            block.complete = block.complete or block.has_words
        elif opening := _FENCE.match(line):
            yield from block.take(Draft("", kind="code"))
            block.add(line)
            block.fence = opening[1]
        elif heading := _HEADING.match(line):
            title = _plain(_CLOSING_MARKS.sub("", line[heading.end() :].strip()))
            yield from block.take(Draft("", kind="heading", level=len(heading[1]), title=title))
            block.add(line)
            block.complete = True
        elif block.is_one_line and _UNDERLINE.match(line) and "|" not in block.lines[-1]:
            level = 1 if "=" in line else 2
            block.shape = Draft("", kind="heading", level=level, title=_plain(block.lines[-1]))
            block.add(line)
            block.complete = True
        elif block.may_be_header and "|" in line and _TABLE_RULE.match(line):
            header = block.lines.pop()
            yield from block.take(Draft("", kind="table", lead=header.strip()))
            block.add(header)
            block.add(line)
        else:
            if block.complete or (block.shape.kind == "table" and "|" not in line):
                yield from block.take(_PARAGRAPH)
            block.add(line)
    yield from block.take(_PARAGRAPH)


class _Growing:
    """The block whose lines are being read.

    Attributes:
        lines: so far.
        shape: the draft it will be, without text.
        fence: of a code block that is still open, else "".
        complete: whether the next line with words opens another block.
        num_chars: so far.
        has_words: whether a line is not blank.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shape = _PARAGRAPH
        self.fence = ""
        self.complete = False
        self.num_chars = 0
        self.has_words = False

    @property
    def is_one_line(self) -> bool:
        return not self.complete and self.shape.kind == "paragraph" and len(self.lines) == 1 and self.has_words

    @property
    def may_be_header(self) -> bool:
        return not self.complete and self.shape.kind == "paragraph" and bool(self.lines) and "|" in self.lines[-1]

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.num_chars += len(line)
        self.has_words = self.has_words or not line.isspace()

    def take(self, following: Draft) -> Iterator[Draft]:
        """Ends the block, if it has lines, and begins one of another shape."""
        text = "".join(self.lines)
        shape = self.shape
        self.lines, self.num_chars, self.has_words = [], 0, False
        self.shape, self.complete = following, False
        if text:
            yield replace(shape, text=text)


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return mark.startswith(fence) and not mark.strip(fence[0])


def _plain(title: str) -> str:
    return _MARKUP.sub(lambda match: match[1] or "", title[:_MAX_TITLE_CHARS]).strip()
