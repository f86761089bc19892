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
_POINTS_PER_CHARACTER = 6.1
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
        height = (
            1.25 + ROW_INCHES * 1.25 * max(2, len(self.rows)) + key_inches([_OURS, _INTERVAL, _PAPER], _WIDTH_INCHES)
        )
        with picture(path, 1, title=self.title, width_inches=_WIDTH_INCHES, height_inches=height) as [panel]:
            shown: set[str] = set()
            for place, row in enumerate(self.rows):
                if row.value is not None:
                    bar(panel, place, 0.0, float(row.value), style=0, height=0.62, told=_once(_OURS, shown))
                if row.value is not None and row.low is not None and row.high is not None:
                    _whisker(panel, place, float(row.low), float(row.high), told=_once(_INTERVAL, shown))
                if row.paper is not None:
                    _diamond(panel, place, float(row.paper), told=_once(_PAPER, shown))
            set_axis(panel, "x", self._axis(), [number for row in self.rows for number in _numbers(row)])
            panel.axvline(0.0, color=INK, linewidth=0.8)
            panel.set_ylim(len(self.rows) - 0.4, -0.7)
            _columns(panel, self.rows)
            name_rows(panel, range(len(self.rows)), [row.name for row in self.rows])
            key(panel, _WIDTH_INCHES, (_OURS, _INTERVAL, _PAPER))

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


def _columns(panel: "Axes", rows: Sequence[Bar]) -> None:
    """Write the numbers right of the bars, in columns with a head each."""
    decimals = _decimals(rows)
    columns = {
        "ours": [_told(decimals, row.value) for row in rows],
        "95 % interval": [_told(decimals, row.low, row.high) for row in rows],
        "paper": [_told(decimals, row.paper) for row in rows],
    }
    right = 10.0
    for head, cells in columns.items():
        if not any(cells):
            continue
        right += _POINTS_PER_CHARACTER * max(map(len, [head, *cells])) + 14
        for place, cell in [(-0.85, head), *enumerate(cells)]:
            panel.annotate(
                cell,
                (1.0, place),
                xycoords=panel.get_yaxis_transform(),
                xytext=(right, 0),
                textcoords="offset points",
                fontsize=10,
                fontweight="bold" if place < 0 else "normal",
                color=INK,
                ha="right",
                va="center",
                annotation_clip=False,
            )


def _told(decimals: int | None, *numbers: Number | None) -> str:
    found = [number for number in numbers if number is not None]
    if decimals is None:
        told = [number_told(number) for number in found]
    else:
        told = [f"{number:,.{decimals}f}".replace("-", "−") for number in found]
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""


def _decimals(rows: Sequence[Bar]) -> int | None:
    """Digits after the point, the same in all rows; None for numbers that are too small or too large for that."""
    most = max((abs(number) for row in rows for number in _numbers(row)), default=0.0)
    if most and not 0.01 <= most < 1e6:
        return None
    return 0 if most >= 1000 else 1 if most >= 10 else 2 if most >= 1 else 3


def _whisker(panel: "Axes", place: Number, low: Number, high: Number, *, told: str) -> None:
    panel.plot([low, high], [place, place], color=INK, linewidth=1.6, marker="|", markersize=9, label=told)


def _diamond(panel: "Axes", place: Number, at: Number, *, told: str) -> None:
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
