"""CSV and TSV ▸ table rows, streamed."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from statistics import mode

from precog.errors import DocumentError
from precog.text.document import Draft
from precog.text.loaders.table import table

_MAX_CELL_CHARS = 1 << 24
_SAMPLE_LINES = 50


def comma_separated(lines: Iterable[str]) -> Iterator[Draft]:
    """Reads CSV whose separator (comma, semicolon, tab or bar) is found from the first lines.

    Raises:
        DocumentError: a quoted cell never ends.
    """
    lines = iter(lines)
    first = list(islice(lines, _SAMPLE_LINES))
    delimiter = max(",;\t|", key=lambda separator: _fit(first, separator))
    yield from _separated(chain(first, lines), delimiter)


def tab_separated(lines: Iterable[str]) -> Iterator[Draft]:
    """Reads TSV.

    Raises:
        DocumentError: a quoted cell never ends.
    """
    yield from _separated(lines, "\t")


def _fit(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """How well a separator explains the first lines: the share of rows as wide as most are, and that width."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return 0.0, 0
    if not widths:
        return 0.0, 0
    width = mode(widths)
    return (widths.count(width) / len(widths), width) if width > 1 else (0.0, 0)


def _separated(lines: Iterable[str], delimiter: str) -> Iterator[Draft]:
    csv.field_size_limit(_MAX_CELL_CHARS)
    rows = csv.reader(lines, delimiter=delimiter)
    try:
        yield from table(rows)
    except csv.Error as error:
        raise DocumentError(f"it is malformed CSV: {error}", given=f"line {rows.line_num}") from error
