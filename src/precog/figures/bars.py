"""Values with their intervals, row by row, and what the paper has beside ours: a table that is seen at a glance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from precog.errors import InputError
from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import INK, VERMILION, picture
from precog.figures.checks import Number, check_names, check_numbers
from precog.figures.hbars import ROW_INCHES, bar, name_rows
from precog.figures.lines import key, key_inches
from precog.figures.told import number_told

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_INCHES = 8.4
_MOST_ROWS = 40
_OURS, _INTERVAL, _PAPER = "ours", "95 % interval", "the paper's"


@dataclass(frozen=True)
class Bar:
    """One row.

    Attributes:
        name: of what was measured.
        value: ours; None where only the paper has one.
        low: lower end of its 95 % interval; None for none.
        high: upper end.
        paper: the paper's value; None where it has none.
    """

    name: str
    value: Number | None
    low: Number | None = None
    high: Number | None = None
    paper: Number | None = None


@dataclass(frozen=True)
class BarsWithIntervals:
    """Rows of one quantity.

    Attributes:
        title: stands over the picture.
        quantity: what is measured, such as ``F1``.
        unit: of the values, such as ``%``; may be empty.
        rows: from top to bottom.
    """

    kind: ClassVar[str] = "bars_with_intervals"
    title: str
    quantity: str
    unit: str
    rows: Sequence[Bar]

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, one is no number, or a value lies outside its interval.
        """
        check_names("rows", [row.name for row in self.rows], most=_MOST_ROWS)
        for row in self.rows:
            check_numbers(row.name, _numbers(row))
            if (row.low is None) != (row.high is None) or (row.value is None and row.low is not None):
                raise InputError("an interval has a value and two ends", given=row.name)
            low, value, high = row.low, row.value, row.high
            if low is not None and value is not None and high is not None and not low <= value <= high:
                given = f"{row.name}: {value} in [{low}, {high}]"
                raise InputError("a value lies outside its interval", given=given)
        if not any(_numbers(row) for row in self.rows):
            raise InputError("there is nothing to draw", given="no row with a value")

    def axes(self) -> Mapping[str, Axis]:
        """What the axis means."""
        return {"rows.value": self._axis()}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        height = 1.25 + ROW_INCHES * 1.25 * max(2, len(self.rows)) + key_inches([_OURS] * 3, _WIDTH_INCHES)
        with picture(path, 1, title=self.title, width_inches=_WIDTH_INCHES, height_inches=height) as [panel]:
            shown: set[str] = set()
            for place, row in enumerate(self.rows):
                if row.value is not None:
                    bar(panel, place, 0.0, float(row.value), style=0, height=0.62, told=_once(_OURS, shown))
                if row.value is not None and row.low is not None and row.high is not None:
                    _whisker(panel, place, float(row.low), float(row.high), told=_once(_INTERVAL, shown))
                if row.paper is not None:
                    _diamond(panel, place, float(row.paper), told=_once(_PAPER, shown))
                panel.text(
                    1.02, place, _told(row), transform=panel.get_yaxis_transform(), fontsize=10, color=INK, va="center"
                )
            set_axis(panel, "x", self._axis(), [number for row in self.rows for number in _numbers(row)])
            panel.axvline(0.0, color=INK, linewidth=0.8)
            panel.set_ylim(len(self.rows) - 0.4, -0.6)
            name_rows(panel, range(len(self.rows)), [row.name for row in self.rows])
            key(panel, _WIDTH_INCHES)

    def _axis(self) -> Axis:
        return Axis(self.quantity, self.unit, origin=True)


def _numbers(row: Bar) -> list[Number]:
    return [number for number in (row.value, row.low, row.high, row.paper) if number is not None]


def _once(told: str, shown: set[str]) -> str:
    """An entry of the key for the first that is drawn, and none for the others."""
    if told in shown:
        return "_"
    shown.add(told)
    return told


def _told(row: Bar) -> str:
    ours = "–" if row.value is None else number_told(row.value)
    if row.low is not None and row.high is not None:
        ours += f" [{number_told(row.low)}, {number_told(row.high)}]"
    return ours if row.paper is None else f"{ours} · paper {number_told(row.paper)}"


def _whisker(panel: "Axes", place: float, low: float, high: float, *, told: str) -> None:
    panel.plot([low, high], [place, place], color=INK, linewidth=1.6, marker="|", markersize=9, label=told)


def _diamond(panel: "Axes", place: float, at: float, *, told: str) -> None:
    panel.plot(
        [at],
        [place],
        linestyle="none",
        marker="D",
        markersize=8,
        markerfacecolor="white",
        markeredgecolor=VERMILION,
        markeredgewidth=1.8,
        label=told,
        zorder=4,
    )
