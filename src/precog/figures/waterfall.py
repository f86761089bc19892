"""Time to the first token, stage by stage, for several ways of using a context (paper, Fig. 3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from precog.errors import InputError
from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import COLOURS, INK, picture
from precog.figures.checks import Number, check_names, check_numbers
from precog.figures.hbars import ROW_INCHES, bar, name_rows, room_at_right, value
from precog.figures.told import seconds_told, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIME = Axis("time since the question was asked", "s", "log")
_WIDTH_INCHES = 8.0
_MOST_STAGES = 12
_MOST_DECADES = 8
_LONGEST_WAY = 38


@dataclass(frozen=True)
class Stage:
    """A part of the way to the first token; it begins when the one before has ended.

    Attributes:
        name: at the left of its bar.
        seconds: it takes, zero or more.
    """

    name: str
    seconds: Number


@dataclass(frozen=True)
class Way:
    """One way of using a context.

    Attributes:
        name: over its stages, with the sum of their times.
        stages: in the order in which they happen.
    """

    name: str
    stages: Sequence[Stage]

    @property
    def seconds(self) -> float:
        """Time to the first token."""
        return float(sum(stage.seconds for stage in self.stages))


@dataclass(frozen=True)
class Waterfall:
    """A bar for each stage from its begin to its end, on one logarithmic axis of time for all ways.

    Attributes:
        title: stands over the picture.
        ways: from top to bottom.
    """

    kind: ClassVar[str] = "waterfall"
    title: str
    ways: Sequence[Way]

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, one is negative or no number, or no stage takes any time.
        """
        check_names("ways", [way.name for way in self.ways], most=12)
        for way in self.ways:
            check_names(f"stages of {way.name}", [stage.name for stage in way.stages], most=_MOST_STAGES)
            check_numbers(f"{way.name}, seconds", [stage.seconds for stage in way.stages], sign="zero or more")
        if not any(way.seconds for way in self.ways):
            raise InputError("there is nothing to draw", given="no stage that takes time")

    def axes(self) -> Mapping[str, Axis]:
        """What the axis means."""
        return {"ways.stages.seconds": _TIME}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        ends = [end for way in self.ways for end in accumulate(stage.seconds for stage in way.stages) if end]
        high = float(max(ends))
        low = max(10.0 ** math.floor(math.log10(min(ends)) - 0.3), high * 10.0**-_MOST_DECADES)
        names = list(dict.fromkeys(stage.name for way in self.ways for stage in way.stages))
        rows = sum(len(way.stages) + 1.35 for way in self.ways)
        height = 1.3 + ROW_INCHES * rows
        with picture(path, 1, title=self.title, width_inches=_WIDTH_INCHES, height_inches=height) as [panel]:
            set_axis(panel, "x", _TIME, [low, high])
            panel.set_xlim(low, room_at_right(low, high, 7, _WIDTH_INCHES - 2.8))
            panel.set_ylim(rows - 0.3, -0.75)
            place, places, told = 0.0, [], []
            for way in self.ways:
                _head(panel, place, f"{short(way.name, _LONGEST_WAY)}: {seconds_told(way.seconds)}")
                end = 0.0
                for stage in way.stages:
                    place += 1
                    start, end = end, end + stage.seconds
                    bar(panel, place, max(start, low), max(end, low), style=names.index(stage.name))
                    colour = COLOURS[names.index(stage.name) % len(COLOURS)]
                    panel.plot([max(end, low)], [place], "|", color=colour, markersize=15, markeredgewidth=1.6)
                    value(panel, place, max(end, low), seconds_told(stage.seconds))
                    places.append(place)
                    told.append(stage.name)
                place += 1.35
            name_rows(panel, places, told)


def _head(panel: "Axes", place: Number, text: str) -> None:
    from matplotlib.patheffects import withStroke

    panel.text(
        0.008,
        place,
        text,
        transform=panel.get_yaxis_transform(),
        color=INK,
        fontweight="bold",
        va="center",
        path_effects=[withStroke(linewidth=4, foreground="white")],
    )
