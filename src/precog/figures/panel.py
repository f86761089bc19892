"""Panels of lines side by side: the form that most pictures of numbers take."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from precog.errors import InputError
from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import picture
from precog.figures.checks import check_names
from precog.figures.labels import place
from precog.figures.lines import (
    Level,
    Line,
    Mark,
    check_lines,
    check_marks,
    draw_levels,
    draw_lines,
    draw_marks,
    key,
    key_inches,
)
from precog.figures.told import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PANELS, _MOST_IN_ROW = 12, 3
_LONGEST_TITLE = 50


@dataclass(frozen=True)
class Panel:
    """Lines over one axis.

    Attributes:
        title: stands over it.
        x: what the places mean.
        y: what the values mean.
        lines: ours; at least one here or among the paper's.
        paper: lines as published, dashed and hollow; one of the same name as ours has its colour and marker.
        levels: straight lines across.
        marks: points with a text.
    """

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    paper: Sequence[Line] = ()
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()

    def __post_init__(self) -> None:
        """Checks that all of it has a place on its axes.

        Raises:
            InputError: it has not, or there is no line.
        """
        if not self.lines and not self.paper:
            raise InputError("there is nothing to draw", given=f"{self.title}: no line", expected="at least one")
        check_lines(self.lines, self.x, self.y, least=0)
        check_lines(self.paper, self.x, self.y, what="lines of the paper", least=0)
        check_marks([*self.levels, *self.marks], self.x, self.y)

    @property
    def names(self) -> list[str]:
        """The entries of its key."""
        ours = [line.name for line in self.lines]
        return [*ours, *(_published(line).name for line in self.paper), *(level.text for level in self.levels)]


def draw_panels(
    path: Path,
    title: str,
    panels: Sequence[Panel],
    *,
    panel_width_inches: float = 5.2,
    panel_height_inches: float = 3.7,
) -> None:
    """Draw panels, at most three in a row, each with its key under it.

    Args:
        path: a .png or .svg file.
        title: stands over the picture.
        panels: at least one.
        panel_width_inches: of one panel with its labels.
        panel_height_inches: of one without its key.

    Raises:
        InputError: there are no panels, or too many.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    check_names("panels", [f"{number}" for number in range(len(panels))], most=_MOST_PANELS)
    columns = len(panels) if len(panels) <= _MOST_IN_ROW else -(-len(panels) // -(-len(panels) // _MOST_IN_ROW))
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    height = 0.4 + sum(
        panel_height_inches + max(key_inches(panel.names, panel_width_inches) for panel in row) for row in rows
    )
    with picture(
        path,
        len(panels),
        title=title,
        width_inches=0.4 + panel_width_inches * columns,
        height_inches=height,
        num_columns=columns,
    ) as axes:
        for axis, panel in zip(axes, panels, strict=True):
            draw_panel(axis, panel, panel_width_inches)
        for axis, panel in zip(axes, panels, strict=True):
            place(axis, panel.marks)


def draw_panel(axis: "Axes", panel: Panel, width_inches: float) -> None:
    """Everything but the texts of its marks, which have to know where all else stands."""
    ours = [line.name for line in panel.lines]
    draw_lines(axis, panel.lines, dash="-" if panel.paper else None)
    others = len(ours)
    for line in panel.paper:
        known = line.name in ours
        draw_lines(axis, [_published(line)], first=ours.index(line.name) if known else others, dash="--", hollow=True)
        others += not known
    draw_levels(axis, panel.levels)
    draw_marks(axis, panel.marks)
    lines = [*panel.lines, *panel.paper]
    points: list[Level | Mark] = [*panel.levels, *panel.marks]
    xs = [*(x for line in lines for x in line.xs), *(point.x for point in points if point.x is not None)]
    ys = [*(y for line in lines for y in line.values), *(point.y for point in points if point.y is not None)]
    set_axis(axis, "x", panel.x, xs)
    set_axis(axis, "y", panel.y, ys)
    if panel.title:
        axis.set_title(short(panel.title, _LONGEST_TITLE))
    key(axis, width_inches)


def _published(line: Line) -> Line:
    name = line.name if line.name.endswith("(paper)") else f"{line.name} (paper)"
    return Line(name, line.xs, line.ys, line.low, line.high)
