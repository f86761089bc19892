"""How far logits drift from those of an exact state, by the precision it was stored in, against what theory allows.

Errors span many powers of ten and may be exactly zero: zero has a place of its own at the foot of the axis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import picture, whole_numbers
from precog.figures.checks import Number, check_lengths, check_names, check_numbers
from precog.figures.lines import Line, draw_lines, key, key_inches
from precog.figures.told import power_told, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOKENS = Axis("tokens read after the state", "tokens", "log")
_LAYERS = Axis("layer")
_ERROR = Axis("largest error (0: not one bit differs)", "", "log")
_WIDTH_INCHES = 5.4


@dataclass(frozen=True)
class StoredPrecision:
    """One precision of storing.

    Attributes:
        name: such as ``float16``.
        errors: largest absolute error after each number of tokens; zero where nothing differs.
        bounds: what theory allows there; None for no bound.
        layer_errors: largest absolute error in each layer; empty for none.
    """

    name: str
    errors: Sequence[Number]
    bounds: Sequence[Number] | None = None
    layer_errors: Sequence[Number] = ()


@dataclass(frozen=True)
class ErrorGrowth:
    """Errors over tokens and, where there are any, over layers.

    Attributes:
        title: stands over the picture.
        tokens: places of ``errors``, each more than zero.
        precisions: in the order of the key.
        layers: places of ``layer_errors``.
        quantity: what the errors are of, such as ``logits``.
    """

    kind: ClassVar[str] = "error_growth"
    title: str
    tokens: Sequence[Number]
    precisions: Sequence[StoredPrecision]
    layers: Sequence[int] = ()
    quantity: str = "logits"

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, one is negative or no number, or a series has another length than its places.
        """
        check_names("precisions", [precision.name for precision in self.precisions], most=6)
        check_names("tokens", [str(number) for number in self.tokens], most=100_000)
        check_numbers("tokens", self.tokens, sign="more than zero")
        check_numbers("layers", self.layers)
        for precision in self.precisions:
            check_lengths(precision.name, self.tokens, precision.errors)
            if precision.bounds is not None:
                check_lengths(f"{precision.name}, bounds", self.tokens, precision.bounds)
            if precision.layer_errors:
                check_lengths(f"{precision.name}, layers", self.layers, precision.layer_errors)
            numbers = [*precision.errors, *(precision.bounds or ()), *precision.layer_errors]
            check_numbers(precision.name, numbers, sign="zero or more")

    def axes(self) -> Mapping[str, Axis]:
        """What each axis means."""
        error = replace(_ERROR, name=f"{_ERROR.name}, {self.quantity}")
        return {"tokens": _TOKENS, "precisions.errors": error, "layers": _LAYERS, "precisions.layer_errors": error}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        errors = [Line(precision.name, self.tokens, precision.errors) for precision in self.precisions]
        bounds = [
            (number, Line(f"{precision.name}, bound", self.tokens, precision.bounds))
            for number, precision in enumerate(self.precisions)
            if precision.bounds is not None
        ]
        layers = [
            (number, Line(precision.name, self.layers, precision.layer_errors))
            for number, precision in enumerate(self.precisions)
            if precision.layer_errors
        ]
        names = [*(line.name for line in errors), *(line.name for _, line in bounds)]
        num_panels = 2 if layers else 1
        height = 0.4 + 4.0 + key_inches(names, _WIDTH_INCHES)
        with picture(
            path, num_panels, title=self.title, width_inches=0.4 + _WIDTH_INCHES * num_panels, height_inches=height
        ) as axes:
            _draw(axes[0], list(enumerate(errors)), bounds, _TOKENS, f"{self.quantity}, over tokens")
            if layers:
                _draw(axes[1], layers, [], _LAYERS, "states, layer by layer")
                whole_numbers(axes[1])


def _draw(
    panel: "Axes", lines: Sequence[tuple[int, Line]], bounds: Sequence[tuple[int, Line]], x: Axis, title: str
) -> None:
    every = [line for _, line in [*lines, *bounds]]
    foot = _foot(every)
    for number, line in lines:
        draw_lines(panel, [_lifted(line, foot)], first=number, dash="-")
    for number, line in bounds:
        draw_lines(panel, [_lifted(line, foot)], first=number, dash=":", hollow=True)
    set_axis(panel, "x", x, [place for line in every for place in line.xs])
    heights = [height for line in every for height in _lifted(line, foot).ys]
    set_axis(panel, "y", _ERROR, heights)
    if any(height == 0 for line in every for height in line.ys):
        from matplotlib.ticker import FixedLocator

        marked = [mark for mark in panel.get_yticks() if mark > foot * 3]
        panel.yaxis.set_major_locator(FixedLocator([foot, *marked]))
        panel.yaxis.set_major_formatter(lambda value, _: "0" if value <= foot * 1.001 else power_told(value))
    panel.set_title(short(title, 50))
    key(panel, _WIDTH_INCHES)


def _foot(lines: Sequence[Line]) -> float:
    """Where zero stands: a power of ten, at least one below all that is more."""
    least = min((height for line in lines for height in line.ys if height > 0), default=1.0)
    return float(10.0 ** (math.floor(math.log10(least)) - 1))


def _lifted(line: Line, foot: float) -> Line:
    return Line(line.name, line.xs, [max(float(height), foot) for height in line.ys])
