"""Markdown ▸ headings, paragraphs, tables and code, with the source text kept character by character."""

import re
from collections.abc import Iterable, Iterator

from precog.text.document import MAX_BLOCK_CHARS, Draft, Kind

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\n?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*\n?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?$")
_MARKUP = re.compile(r"[*_`]|!?\[([^\]]*)\]\([^)]*\)")


def markdown(lines: Iterable[str]) -> Iterator[Draft]:
    """Groups the lines of a Markdown file; every line is kept, a blank one with the block before it."""
    parts: list[str] = []
    kind: Kind = "paragraph"
    lead = ""
    fence = ""
    blank = False
    num_chars = 0

    def flush() -> Iterator[Draft]:
        nonlocal kind, lead, num_chars
        if parts:
            yield Draft("".join(parts), kind=kind, lead=lead)
        parts.clear()
        num_chars = 0

    for line in lines:
        is_blank = line.isspace()
        if num_chars >= MAX_BLOCK_CHARS:
            yield from flush()
        if fence:
            if is_blank or not line.strip().startswith(fence) or line.strip().strip(fence[0]):
                parts.append(line)
            else:
                parts.append(line)
                fence = ""
                blank = True  # whatever follows opens a new block
            num_chars += len(line)
            continue
        if is_blank:
            parts.append(line)
            num_chars += len(line)
            blank = True
            continue
        if blank and any(not part.isspace() for part in parts):
            yield from flush()
        if not parts:
            kind, lead = "paragraph", ""
        blank = False
        opening = _FENCE.match(line)
        heading = _HEADING.match(line)
        if opening:
            yield from flush()
            kind, lead, fence = "code", "", opening[1]
        elif heading:
            yield from flush()
            yield Draft(line, kind="heading", level=len(heading[1]), title=_plain(heading[2] or ""))
            continue
        elif len(parts) == 1 and kind == "paragraph" and _UNDERLINE.match(line) and "|" not in parts[0]:
            level = 1 if "=" in line else 2
            yield Draft(parts[0] + line, kind="heading", level=level, title=_plain(parts[0]))
            parts.clear()
            num_chars = 0
            continue
        elif parts and kind == "paragraph" and "|" in line and "|" in parts[-1] and _TABLE_RULE.match(line):
            header = parts.pop()
            yield from flush()
            parts.append(header)
            kind, lead = "table", header.strip()
        elif kind == "table" and "|" not in line:
            yield from flush()
            kind, lead = "paragraph", ""
        parts.append(line)
        num_chars += len(line)
    yield from flush()


def _plain(title: str) -> str:
    return _MARKUP.sub(lambda match: match[1] or "", title).strip()
