"""Lying bars of named rows: room for a name of any length at the left, and for the value beside each bar."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from precog.figures.canvas import COLOURS, INK
from precog.figures.checks import Number
from precog.figures.told import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "++", "--", "oo")
ROW_INCHES = 0.30
_NAME_CHARACTERS = 30


def bar(
    panel: "Axes",
    place: Number,
    start: Number,
    end: Number,
    *,
    style: int,
    height: float = 0.78,
    told: str | None = None,
) -> None:
    """Draw one, in the colour and with the hatch of ``style``, so that it is told from others in grey too.

    Args:
        panel: to draw on.
        place: of its middle, on the upright axis.
        start: left end.
        end: right end.
        style: number of what it stands for.
        height: of it.
        told: in the key; None for no entry.
    """
    turn = style // len(COLOURS)
    panel.barh(
        [place],
        [end - start],
        left=[start],
        height=height,
        color=COLOURS[style % len(COLOURS)],
        hatch=HATCHES[(style + turn) % len(HATCHES)],
        edgecolor="white",
        linewidth=0.6,
        label=told or "_",
    )


def value(panel: "Axes", place: Number, end: Number, told: str) -> None:
    """Write a value right of the end of its bar."""
    panel.annotate(told, (end, place), xytext=(5, 0), textcoords="offset points", fontsize=10, color=INK, va="center")


def name_rows(panel: "Axes", places: Sequence[Number], names: Sequence[str]) -> None:
    """Write the names of rows at the left, in two lines where they are long, the first row on top."""
    panel.set_yticks(list(places), [wrapped(name, _NAME_CHARACTERS) for name in names])
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")


def room_at_right(low: Number, high: Number, characters: int, width_inches: float) -> float:
    """The right limit of a logarithmic axis with room for a text of so many characters beside the longest bar."""
    share = min(0.4, (0.086 * characters + 0.15) / width_inches)
    return float(high * math.exp(math.log(high / low) * share / (1 - share)))
