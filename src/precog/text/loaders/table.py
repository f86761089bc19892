"""Rows of cells ▸ lines of text with the header row as lead: what every format with tables shares."""

import re
from collections.abc import Iterable, Iterator, Sequence

from precog.text.document import Draft

_CHARS_PER_BLOCK = 2_000
_NUMBER = re.compile(r"[-+]?[\d.,\s]*\d[\d.,\s]*(?:[eE][-+]?\d+)?\s*[%€$£]?")
_MAX_NUMBER_CHARS = 40
_SPACES = re.compile(r"\s+")


def table(rows: Iterable[Sequence[str]], *, page: int | None = None) -> Iterator[Draft]:
    """Writes each row as one line, ``a | b | c``, and yields some 2,000 characters of lines at a time."""
    lead: str | None = None
    lines: list[str] = []
    num_chars = 0
    for row in rows:
        cells = [_SPACES.sub(" ", cell).strip() for cell in row]
        if not any(cells):
            continue
        line = " | ".join(cells)
        if lead is None:
            lead = line if _is_header(cells) else ""
        lines.append(line + "\n")
        num_chars += len(line) + 1
        if num_chars >= _CHARS_PER_BLOCK:
            yield Draft("".join(lines), kind="table", page=page, lead=lead)
            lines, num_chars = [], 0
    if lead is not None:
        yield Draft("".join(lines) + "\n", kind="table", page=page, lead=lead)


def _is_header(cells: Sequence[str]) -> bool:
    """A first row names its columns unless one of its cells is a number or it has a single cell."""
    return len(cells) > 1 and not any(_NUMBER.fullmatch(cell[:_MAX_NUMBER_CHARS]) for cell in cells)
