"""How good answers are against what their states take: each codec and each subset of layers, and the best of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import COLOURS, INK, picture
from precog.figures.checks import Number, check_names, check_numbers
from precog.figures.labels import place
from precog.figures.lines import MARKERS, Level, Mark, draw_levels, key, key_inches
from precog.figures.told import number_told, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BYTES = Axis("bytes per state", "B", "log")
_WIDTH_INCHES = 7.6
_MOST_POINTS = 200
_FILLS = ("full", "none", "left", "bottom", "right", "top")
_FRONTIER = "frontier"


@dataclass(frozen=True)
class ParetoPoint:
    """One way of keeping a state.

    Attributes:
        name: beside it, if it lies on the frontier.
        bytes: of a state; zero where nothing is kept: then its quality is a level across the picture.
        quality: of answers from it.
        codec: its colour and filling.
        layers: its marker: the subset of layers that is kept.
    """

    name: str
    bytes: Number
    quality: Number
    codec: str
    layers: str


@dataclass(frozen=True)
class Pareto:
    """Points and their frontier.

    Attributes:
        title: stands over the picture.
        quality: what is measured, such as ``F1``.
        unit: of it, such as ``%``; may be empty.
        points: at most six codecs and seven subsets of layers.
    """

    kind: ClassVar[str] = "pareto"
    title: str
    quality: str
    unit: str
    points: Sequence[ParetoPoint]

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: no point takes any bytes, there are more codecs or subsets than can be told apart, or a number
                is none.
        """
        check_names("points", [point.name for point in self.points], most=_MOST_POINTS)
        check_names("points that take bytes", [point.name for point in self._kept], most=_MOST_POINTS)
        check_names("codecs", self._codecs, most=len(COLOURS))
        check_names("subsets of layers", self._subsets, most=len(MARKERS))
        check_numbers("bytes", [point.bytes for point in self.points], sign="zero or more")
        check_numbers(self.quality, [point.quality for point in self.points])

    def axes(self) -> Mapping[str, Axis]:
        """What each axis means."""
        return {"points.bytes": _BYTES, "points.quality": Axis(self.quality, self.unit)}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        codecs, subsets = self._codecs, self._subsets
        qualities = [point.quality for point in self._kept]
        least = min(qualities) - max(0.6 * (max(qualities) - min(qualities)), 1e-3 * abs(min(qualities)))
        nothing = [_level(point, least) for point in self.points if not point.bytes]
        names = [*codecs, *subsets, _FRONTIER, *(level.text for level in nothing)]
        height = 0.4 + 4.6 + key_inches(names, _WIDTH_INCHES)
        best = frontier(self._kept)
        with picture(path, 1, title=self.title, width_inches=0.4 + _WIDTH_INCHES, height_inches=height) as [panel]:
            xs, ys = [point.bytes for point in best], [point.quality for point in best]
            xs, ys = [x for x in xs for _ in (0, 1)][1:], [y for y in ys for _ in (0, 1)][:-1]  # a stair
            panel.plot(xs, ys, color=INK, linewidth=1.2, label=_FRONTIER, zorder=1.5)
            for point in self._kept:
                _dot(panel, point, codecs.index(point.codec), subsets.index(point.layers))
            for number, codec in enumerate(codecs):
                colour, fill = COLOURS[number], _FILLS[number]
                _entry(panel, codec, colour=colour, marker="o", fill=fill)
            for number, subset in enumerate(subsets):
                _entry(panel, subset, colour=INK, marker=MARKERS[number], fill="none")
            draw_levels(panel, nothing)
            set_axis(panel, "x", _BYTES, [point.bytes for point in self._kept])
            set_axis(
                panel,
                "y",
                Axis(self.quality, self.unit),
                [*qualities, *(float(level.y or 0) for level in nothing if (level.y or 0) >= least)],
            )
            key(panel, _WIDTH_INCHES)
            place(panel, [Mark(point.name, point.bytes, point.quality) for point in reversed(best)], needed=False)

    @property
    def _kept(self) -> list[ParetoPoint]:
        return [point for point in self.points if point.bytes != 0]

    @property
    def _codecs(self) -> list[str]:
        return list(dict.fromkeys(point.codec for point in self._kept))

    @property
    def _subsets(self) -> list[str]:
        return list(dict.fromkeys(point.layers for point in self._kept))


def frontier(points: Sequence[ParetoPoint]) -> list[ParetoPoint]:
    """The points that no other beats, the smallest first: each takes more bytes than the one before, and is better."""
    best: list[ParetoPoint] = []
    for point in sorted(points, key=lambda point: (point.bytes, -point.quality)):
        if not best or point.quality > best[-1].quality:
            best.append(point)
    return best


def _level(point: ParetoPoint, least: float) -> Level:
    """What answers are worth where nothing is kept; said only, where a line would press all others together."""
    away = "" if point.quality >= least else ", not shown"
    return Level(f"{point.name} (0 B): {number_told(point.quality)}{away}", y=point.quality)


def _dot(panel: "Axes", point: ParetoPoint, codec: int, subset: int) -> None:
    panel.plot(
        [point.bytes],
        [point.quality],
        linestyle="none",
        marker=MARKERS[subset],
        markersize=9,
        color=COLOURS[codec],
        fillstyle=_FILLS[codec],
        markerfacecoloralt="white",
        markeredgewidth=1.6,
        zorder=3,
    )


def _entry(panel: "Axes", told: str, *, colour: str, marker: str, fill: str) -> None:
    """A line of the key that stands for a colour or for a marker."""
    panel.plot(
        [],
        [],
        linestyle="none",
        marker=marker,
        markersize=8,
        color=colour,
        fillstyle=fill,
        markerfacecoloralt="white",
        label=short(told, 44),
    )
