"""Boxes with arrows between them, on a sheet that is measured in inches from its lower left corner."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from precog.figures.canvas import BLUE, INK, picture
from precog.figures.told import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLAIN, MODEL, KEPT, FAINT = "#FFFFFF", "#DCEBF5", "#FBE9D0", "#F4F4F4"
"""Fills: of things that pass, of what computes, of what is kept, of what holds other boxes."""
_HEAD_CHARACTER, _NOTE_CHARACTER = 0.093, 0.077
_LINE_INCHES = 0.185


@dataclass(frozen=True)
class Box:
    """A step or a thing.

    Attributes:
        x: of its middle.
        y: of its middle.
        width: of it.
        height: of it.
        head: in bold; may be empty.
        note: under the head, a line each.
        fill: colour.
        dashed: whether its edge is: for what need not be done.
        strong: whether its edge is: for what is chosen among others.
        top: whether its texts begin at its upper edge, for a box that holds others.
    """

    x: float
    y: float
    width: float
    height: float
    head: str
    note: Sequence[str] = ()
    fill: str = PLAIN
    dashed: bool = False
    strong: bool = False
    top: bool = False

    @property
    def left(self) -> tuple[float, float]:
        """Middle of its left edge."""
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> tuple[float, float]:
        """Middle of its right edge."""
        return self.x + self.width / 2, self.y

    @property
    def above(self) -> tuple[float, float]:
        """Middle of its upper edge."""
        return self.x, self.y + self.height / 2

    @property
    def below(self) -> tuple[float, float]:
        """Middle of its lower edge."""
        return self.x, self.y - self.height / 2


@dataclass(frozen=True)
class Arrow:
    """From one place to another, by way of corners."""

    path: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Text:
    """Words that stand for themselves."""

    x: float
    y: float
    words: str
    bold: bool = False


@dataclass(frozen=True)
class Sheet:
    """All that is to be drawn, what lies underneath first."""

    width: float
    height: float
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    texts: Sequence[Text] = ()


def draw_sheet(path: Path, title: str, sheet: Sheet) -> None:
    """Draw it; one inch of the sheet is one of the picture.

    Raises:
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    height = sheet.height + 0.42
    with picture(path, 1, title=title, width_inches=sheet.width, height_inches=height) as [panel]:
        panel.figure.set_layout_engine("none")  # type: ignore[union-attr]
        panel.set_position((0.0, 0.0, 1.0, sheet.height / height))
        panel.set_axis_off()
        panel.set_xlim(0, sheet.width)
        panel.set_ylim(0, sheet.height)
        for box in sheet.boxes:
            _box(panel, box)
        for arrow in sheet.arrows:
            _arrow(panel, arrow)
        for text in sheet.texts:
            panel.text(
                text.x,
                text.y,
                text.words,
                fontsize=11 if text.bold else 10,
                fontweight="bold" if text.bold else "normal",
                color=INK,
                va="center",
            )


def _box(panel: "Axes", box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (box.x - box.width / 2, box.y - box.height / 2)
    panel.add_patch(
        FancyBboxPatch(
            corner,
            box.width,
            box.height,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=box.fill,
            edgecolor="#AAAAAA" if box.fill == FAINT else INK,
            linestyle="--" if box.dashed else "-",
            linewidth=2.2 if box.strong else 1.0,
        )
    )
    width = box.width - 0.12
    heads = _lines(box.head, width / _HEAD_CHARACTER) if box.head else []
    room = max(1, int((box.height + 0.02) / _LINE_INCHES) - len(heads))
    notes = [line for part in box.note for line in _lines(part, width / _NOTE_CHARACTER, room)][:room]
    tall = _LINE_INCHES * (len(heads) + len(notes))
    y = box.y + box.height / 2 - 0.09 if box.top else box.y + tall / 2
    for number, line in enumerate([*heads, *notes]):
        is_head = number < len(heads)
        panel.text(
            box.x,
            y - _LINE_INCHES * (number + 0.5),
            line,
            fontsize=10.5 if is_head else 10,
            fontweight="bold" if is_head else "normal",
            color=INK,
            ha="center",
            va="center",
        )


def _arrow(panel: "Axes", arrow: Arrow) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Track

    panel.add_patch(
        FancyArrowPatch(
            path=Track(list(arrow.path)),
            arrowstyle="-|>,head_width=3.2,head_length=5.5",
            color=INK if arrow.dashed else BLUE,
            linestyle="--" if arrow.dashed else "-",
            linewidth=1.5,
            shrinkA=0,
            shrinkB=0,
            joinstyle="miter",
        )
    )


def _lines(words: str, characters: float, most: int = 2) -> list[str]:
    return wrapped(words, max(4, int(characters)), most).split("\n")
