"""A report as Markdown: tables of pipes, pictures by their file."""

import re
from collections.abc import Iterator, Sequence

from precog.evaluate.paper.report import Report, Section

__all__ = ["markdown"]

_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")


def markdown(report: Report, figures: str = "figures") -> str:
    """The report as one text.

    Args:
        report: what is written.
        figures: folder of the pictures, as seen from the file.
    """
    return "\n".join(_lines(report, figures)) + "\n"


def _lines(report: Report, figures: str) -> Iterator[str]:
    yield f"# {_plain(report.title)}"
    yield ""
    for paragraph in report.summary:
        yield _plain(paragraph)
        yield ""
    yield from _table(("made with", ""), list(report.made_with.items()))
    for section in report.sections:
        yield from _section(section, figures)


def _section(section: Section, figures: str) -> Iterator[str]:
    yield f"## {_plain(section.title)}"
    yield ""
    for paragraph in section.text:
        yield _plain(paragraph)
        yield ""
    if section.compared:
        rows = [(row.what, row.paper, row.ours, row.why) for row in section.compared]
        yield from _table(("", "paper", "ours", "why"), rows)
    for grid in section.grids:
        yield f"**{_plain(grid.title)}**"
        yield ""
        yield from _table(grid.columns, grid.rows)
    for picture in section.pictures:
        yield f"![{_plain(picture.alt)}]({figures}/{picture.name}.svg)"
        yield ""
        yield f"*{_plain(picture.caption)}* ([numbers]({figures}/{picture.name}.json))"
        yield ""
    for note in section.notes:
        yield f"- {_plain(note)}"
    if section.notes:
        yield ""


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_plain, columns))} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"
    yield ""


def _plain(text: str) -> str:
    """A text in which nothing is markup, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
