"""A report as plain data: sections of text, comparisons with the paper, tables, pictures; others render it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Compared", "Grid", "Picture", "Report", "Section"]


@dataclass(frozen=True)
class Compared:
    """A row "paper / ours / why".

    Attributes:
        what: is compared.
        paper: as it is printed there.
        ours: measured or computed.
        why: they differ, or agree; a sentence.
    """

    what: str
    paper: str
    ours: str
    why: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of our own.

    Attributes:
        title: what it shows.
        columns: headings.
        rows: as many cells each.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: a row has not as many cells as there are columns")


@dataclass(frozen=True)
class Picture:
    """A figure of the report.

    Attributes:
        name: of its files, without suffix; the numbers stand in NAME.json beside it.
        caption: stands under it.
        alt: what it shows, for who cannot see it.
    """

    name: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        title: with what it is of in the paper, such as "Main result (Table 3)".
        text: paragraphs before everything else.
        compared: rows against the paper.
        grids: tables of our own.
        pictures: figures.
        notes: after everything else, a sentence each.
    """

    title: str
    text: Sequence[str] = ()
    compared: Sequence[Compared] = ()
    grids: Sequence[Grid] = ()
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """The whole of it.

    Attributes:
        title: of the report.
        summary: paragraphs that stand first.
        made_with: what a reader has to know of how it was made, name ▸ words.
        sections: in their order.
    """

    title: str
    summary: Sequence[str]
    made_with: Mapping[str, str]
    sections: Sequence[Section] = field(default=())
