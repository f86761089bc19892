"""Named lines over one axis: each has a colour, a dash and a marker of its own, and may have a band about it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from precog.errors import InputError
from precog.figures.axis import Axis
from precog.figures.canvas import COLOURS, DASHES, INK
from precog.figures.checks import Number, check_lengths, check_names, check_numbers
from precog.figures.told import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LONGEST_NAME = 44
_FEW_POINTS = 10
_CHARACTER_INCHES, _HANDLE_INCHES, _ROW_INCHES = 0.084, 0.78, 0.215
_MOST_COLUMNS = 4
_KEY_BELOW_INCHES = 0.56


@dataclass(frozen=True)
class Line:
    """Values over places.

    Attributes:
        name: in the key.
        xs: places, N of them; they are joined in this order.
        ys: values, N of them.
        low: lower edge of the band, N; None for no band.
        high: upper edge, N.
    """

    name: str
    xs: Sequence[Number]
    ys: Sequence[Number]
    low: Sequence[Number] | None = None
    high: Sequence[Number] | None = None

    @property
    def values(self) -> list[Number]:
        """All heights that are to be seen."""
        return [*self.ys, *(self.low or ()), *(self.high or ())]


@dataclass(frozen=True)
class Level:
    """A straight line across the panel; its text stands in the key.

    Attributes:
        text: what it marks.
        x: where it stands upright; None for one that lies.
        y: where it lies.
    """

    text: str
    x: Number | None = None
    y: Number | None = None


@dataclass(frozen=True)
class Mark:
    """A point with a text beside it."""

    text: str
    x: Number
    y: Number


def check_lines(lines: Sequence[Line], x: Axis, y: Axis, *, what: str = "lines", least: int = 1) -> None:
    """Refuse lines that have no place on these axes.

    Raises:
        InputError: there are none or too many, a line has no point, or a number of it cannot be drawn there.
    """
    check_names(what, [line.name for line in lines], least=least)
    for line in lines:
        if not len(line.xs):
            raise InputError("a line of a picture has no points", given=line.name)
        check_lengths(line.name, line.xs, line.ys)
        if (line.low is None) != (line.high is None):
            raise InputError("a band has two edges", given=f"{line.name}: one")
        check_lengths(line.name, line.xs, *(edge for edge in (line.low, line.high) if edge is not None))
        check_numbers(f"{line.name}, {x.name}", line.xs, sign=x.sign)
        check_numbers(f"{line.name}, {y.name}", line.values, sign=y.sign)


def check_marks(marks: Sequence[Mark | Level], x: Axis, y: Axis) -> None:
    """Refuse marks that have no place on these axes.

    Raises:
        InputError: a mark lies nowhere, or a level neither stands nor lies.
    """
    for mark in marks:
        if (mark.x is None and mark.y is None) or (isinstance(mark, Level) and None not in (mark.x, mark.y)):
            raise InputError("a level of a picture stands or lies", given=mark.text, expected="x or y")
        check_numbers(f"{mark.text}, {x.name}", [] if mark.x is None else [mark.x], sign=x.sign)
        check_numbers(f"{mark.text}, {y.name}", [] if mark.y is None else [mark.y], sign=y.sign)


def draw_lines(
    panel: "Axes", lines: Sequence[Line], *, first: int = 0, dash: str | None = None, hollow: bool = False
) -> None:
    """Draw them.

    Args:
        panel: to draw on.
        lines: in the order of their styles.
        first: number of the first one's style.
        dash: of all; None for one each.
        hollow: whether markers are, and lines thinner: what others have published.
    """
    for number, line in enumerate(lines, start=first):
        colour = COLOURS[number % len(COLOURS)]
        step = math.ceil(len(line.xs) / _FEW_POINTS)
        if line.low is not None and line.high is not None:
            panel.fill_between(line.xs, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
        panel.plot(
            line.xs,
            line.ys,
            label=short(line.name, LONGEST_NAME),
            color=colour,
            linestyle=dash or DASHES[(number + number // len(COLOURS)) % len(DASHES)],
            linewidth=1.3 if hollow else 1.8,
            marker=MARKERS[number % len(MARKERS)],
            markersize=6 if hollow else 5,
            markerfacecolor="white" if hollow else colour,
            markevery=(number % step, step),
        )


def draw_levels(panel: "Axes", levels: Sequence[Level]) -> None:
    """Draw them in ink, each with a dash of its own."""
    for number, level in enumerate(levels):
        style = (":", "-.", (0, (5, 1)), (0, (1, 3)))[number % 4]
        told = short(level.text, LONGEST_NAME)
        if level.x is not None:
            panel.axvline(float(level.x), label=told, color=INK, linestyle=style, linewidth=1.3)
        elif level.y is not None:
            panel.axhline(float(level.y), label=told, color=INK, linestyle=style, linewidth=1.3)


def draw_marks(panel: "Axes", marks: Sequence[Mark]) -> None:
    """Ring the points; their texts are placed when everything else is drawn (`labels.place`)."""
    for mark in marks:
        panel.plot([mark.x], [mark.y], "o", markersize=9, markerfacecolor="none", markeredgecolor=INK, zorder=5)


def key(panel: "Axes", width_inches: float, first: Sequence[str] = ()) -> None:
    """Say under the panel what its lines are, in as many columns as fit; those named in ``first`` stand first."""
    handles, names = panel.get_legend_handles_labels()
    if not names:
        return
    order = sorted(range(len(names)), key=lambda n: first.index(names[n]) if names[n] in first else len(first))
    from matplotlib.transforms import ScaledTranslation

    below = ScaledTranslation(0, -_KEY_BELOW_INCHES, panel.figure.dpi_scale_trans)
    panel.legend(
        [handles[n] for n in order],
        [names[n] for n in order],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=panel.transAxes + below,
        ncols=_columns(names, width_inches),
        columnspacing=1.4,
        handlelength=3.2,
        borderaxespad=0.0,
    )


def key_inches(names: Sequence[str], width_inches: float) -> float:
    """How much height a picture needs for the key of these names."""
    told = [short(name, LONGEST_NAME) for name in names]
    rows = -(-len(told) // _columns(told, width_inches)) if told else 0
    return _ROW_INCHES + rows * _ROW_INCHES


def _columns(names: Sequence[str], width_inches: float) -> int:
    """As many columns as fit beside each other; each is as wide as its longest entry, and filled from above."""
    entries = [_HANDLE_INCHES + _CHARACTER_INCHES * len(name) for name in names]
    fits = [
        count
        for count in range(1, min(len(entries), _MOST_COLUMNS) + 1)
        if sum(max(column) for column in np.array_split(entries, count)) <= width_inches
    ]
    return max(fits, default=1)
