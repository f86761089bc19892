"""An axis: what it measures, in which unit, linear or logarithmic; and the marks along it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from precog.figures.checks import Number, Sign
from precog.figures.told import bytes_told, number_told, power_told, seconds_told

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_MARKS = 8
_TOLD: dict[str, Callable[[float | int, object], str]] = {"B": bytes_told, "s": seconds_told}
_BINARY = ("B", "tokens")


@dataclass(frozen=True)
class Axis:
    """What one direction of a panel means.

    Attributes:
        name: of the quantity.
        unit: of the numbers; ``B`` and ``s`` are written with the prefix that suits them.
        scale: ``log`` has no place for zero or less.
        origin: whether a linear axis begins at zero.
    """

    name: str
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"
    origin: bool = False

    @property
    def sign(self) -> Sign:
        """What a number on it may be."""
        return "more than zero" if self.scale == "log" else "any"

    @property
    def label(self) -> str:
        """What stands beside it."""
        if self.unit == "B":
            return f"{self.name} (1 KB = 1,024 B)"
        return f"{self.name} [{self.unit}]" if self.unit and self.unit != "s" else self.name

    def told(self, value: float | int, position: object = None) -> str:
        """A value of it, with its unit where the axis does not name that."""
        return _TOLD.get(self.unit, number_told)(value, position)


def set_axis(panel: "Axes", which: Literal["x", "y"], axis: Axis, values: Iterable[Number]) -> None:
    """Scale, limits, marks and label of a panel's axis.

    Args:
        panel: that is drawn on.
        which: of its axes.
        axis: what it means.
        values: all that is to be seen; at least one, on a logarithmic axis each more than zero.
    """
    found = [float(value) for value in values]
    low, high = min(found), max(found)
    side = panel.xaxis if which == "x" else panel.yaxis
    set_limits = panel.set_xlim if which == "x" else panel.set_ylim
    side.set_label_text(axis.label)
    if axis.scale == "log":
        from matplotlib.ticker import FixedLocator, NullLocator

        base = 2 if axis.unit in _BINARY else 10
        low, high = _widened(low, high)
        if which == "x":
            panel.set_xscale("log", base=base)
        else:
            panel.set_yscale("log", base=base)
        set_limits(low, high)
        side.set_major_locator(FixedLocator(marks(low, high, base)))
        side.set_minor_locator(NullLocator())
    else:
        from matplotlib.ticker import MaxNLocator

        are_whole = all(value.is_integer() for value in found)
        margin = 0.05 * (high - low) or (1.0 if are_whole else 0.05 * abs(high))
        if are_whole and abs(high) < 1e6:
            side.set_major_locator(MaxNLocator(nbins=_MOST_MARKS, integer=True, min_n_ticks=1))
        if axis.origin:
            low, high = min(low, 0.0), max(high, 0.0)
            margin = 0.05 * (high - low) or 1.0
        set_limits(low if axis.origin and low == 0 else low - margin, high + margin)
    long = axis.scale == "log" and axis.unit not in (*_TOLD, "tokens") and (high >= 1e6 or low < 1e-3)
    side.set_major_formatter(power_told if long else axis.told)


def marks(low: float | int, high: float | int, base: int) -> list[float]:
    """Places of a logarithmic axis worth a mark: powers of the base, as many as can be read.

    Where fewer than three powers lie between the limits, round numbers between them are taken too.
    """
    first, last = math.log(low, base), math.log(high, base)
    step = max(1, math.ceil((last - first) / _MOST_MARKS))
    exponents = range(math.ceil(first / step - 1e-9) * step, math.floor(last + 1e-9) + 1, step)
    found = [float(base) ** exponent for exponent in exponents]
    if len(found) >= 3:
        return found
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for leads in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        round_numbers = [lead * 10.0**decade for decade in decades for lead in leads]
        found = [number for number in round_numbers if low <= number <= high]
        if len(found) >= 2:
            return found
    return [math.sqrt(low * high)]


def _widened(low: float | int, high: float | int) -> tuple[float, float]:
    """Limits with a little room: a twentieth of the way, at least a factor of two where all is one value."""
    factor = 2.0 if high <= low * 1.000001 else (high / low) ** 0.05
    return low / factor, high * factor
