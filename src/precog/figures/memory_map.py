"""What a memory holds, domain by domain: a point per deposit, coloured by sub-cluster, with the groups that emerge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float32

from precog.errors import InputError
from precog.figures.axis import Axis
from precog.figures.canvas import COLOURS, GRID, INK, VERMILION, picture
from precog.figures.checks import Number
from precog.figures.told import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_OTHERS = "#B5B5B5"
_LONGEST_NAME = 34
_LEGEND_ROWS_INCHES = 0.24
_PANEL_INCHES = 4.2
_MOST_IN_ROW = 3
_SHARE_OUTLINED = 0.75
_LARGEST, _SMALLEST = 60.0, 15.0
"""Areas of markers in square points, of few deposits and of many."""


@dataclass(frozen=True, eq=False)
class MapPanel:
    """One domain of a memory, laid out on a plane.

    Attributes:
        title: the domain's name.
        points: [N, 2].
        labels: the sub-cluster of each point; None for those that none holds.
        emergent: name of each group that emerges ▸ rows of its points; they are ringed, and most of them outlined.
        note: what is to be known of how the points were laid out; stands under the panel.
        ids: number of the deposit that each point is; none where nobody asks.
    """

    title: str
    points: Float32[np.ndarray, "N 2"]
    labels: tuple[str | None, ...]
    emergent: Mapping[str, Sequence[int]] = field(default_factory=dict)
    note: str = ""
    ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Checks that there is a label for each point, and a point for each row.

        Raises:
            InputError: there is not, or a point lies nowhere.
        """
        if len(self.labels) != len(self.points):
            raise InputError("each point of a map has a label", given=f"{len(self.points)}, {len(self.labels)}")
        if not np.isfinite(self.points).all():
            raise InputError("a point of the map lies nowhere", given=self.title)
        if any(not 0 <= row < len(self.points) for rows in self.emergent.values() for row in rows):
            raise InputError("an outlined group has a point that is not on the map", given=self.title)


@dataclass(frozen=True)
class MappedDomain:
    """One domain of a memory in plain numbers, as they are written beside the picture.

    Attributes:
        title: the domain's name.
        points: two coordinates for each deposit; their unit is the layout's own.
        labels: as of `MapPanel`.
        emergent: the same.
        note: the same.
    """

    title: str
    points: Sequence[Sequence[Number]]
    labels: Sequence[str | None]
    emergent: Mapping[str, Sequence[int]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class MemoryMap:
    """A map with its numbers, to be drawn by `precog.figures.draw` (paper, Fig. 8).

    Attributes:
        title: stands over the picture.
        domains: one panel each.
    """

    kind: ClassVar[str] = "memory_map"
    title: str
    domains: Sequence[MappedDomain]

    def __post_init__(self) -> None:
        """Checks that each point has two coordinates.

        Raises:
            InputError: one has not.
        """
        for domain in self.domains:
            if any(len(point) != 2 for point in domain.points):
                raise InputError("a point of a map has two coordinates", given=domain.title)

    @classmethod
    def of(cls, panels: Sequence[MapPanel], title: str) -> "MemoryMap":
        """The map that `memory_map` draws from these panels."""
        return cls(
            title,
            [
                MappedDomain(
                    panel.title,
                    panel.points.tolist(),
                    panel.labels,
                    {name: [int(row) for row in rows] for name, rows in panel.emergent.items()},
                    panel.note,
                )
                for panel in panels
            ],
        )

    def axes(self) -> Mapping[str, Axis]:
        """What the coordinates mean."""
        return {"domains.points[0]": Axis("first coordinate of the layout"), "domains.points[1]": Axis("second")}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        panels = [
            MapPanel(
                domain.title,
                np.array(domain.points, dtype=np.float32).reshape(-1, 2),
                tuple(domain.labels),
                domain.emergent,
                domain.note,
            )
            for domain in self.domains
        ]
        memory_map(panels, path, title=self.title)


def memory_map(panels: Sequence[MapPanel], path: Path, *, title: str) -> None:
    """Draw the domains, a colour and a marker per sub-cluster, others grey, and outlines where groups emerge.

    Args:
        panels: one per domain, at most three in a row; at most six sub-clusters have colours of their own, further ones
            another marker.
        path: a .png or .svg file.
        title: stands over the picture.

    Raises:
        InputError: there is nothing to draw.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    if not any(len(panel.points) for panel in panels):
        raise InputError("there is no memory to draw", given="0 points", expected="at least one")
    columns = len(panels) if len(panels) <= _MOST_IN_ROW else -(-len(panels) // 2)
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    height = 0.4 + sum(_PANEL_INCHES + _LEGEND_ROWS_INCHES * max(map(_num_entries, row)) for row in rows)
    width = 0.6 + 5.0 * columns
    with picture(path, len(panels), title=title, width_inches=width, height_inches=height, num_columns=columns) as axes:
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel)


def core(points: Float32[np.ndarray, "N 2"]) -> Float32[np.ndarray, "K 2"]:
    """The three quarters of a group that lie nearest to its middle: a few far away do not stretch its outline."""
    away = np.linalg.norm(points - np.median(points, axis=0), axis=1)
    nearest: Float32[np.ndarray, "K 2"] = points[away <= np.quantile(away, _SHARE_OUTLINED)]
    return nearest


def hull(points: Float32[np.ndarray, "N 2"]) -> Float32[np.ndarray, "K 2"]:
    """The corners of the convex hull, counter-clockwise from the leftmost; one or two where all lie on a line."""
    unique = np.unique(points, axis=0)
    if len(unique) < 3:
        return unique
    chains = []
    for ordered in (unique, unique[::-1]):
        chain: list[np.ndarray] = []
        for point in ordered:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        chains.append(chain[:-1])
    return np.stack([*chains[0], *chains[1]])


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float(b[0] - a[0]) * float(c[1] - a[1]) - float(b[1] - a[1]) * float(c[0] - a[0])


def _counted(panel: MapPanel) -> list[tuple[str, int]]:
    """Sub-clusters with their counts, the largest first."""
    counts: dict[str, int] = {}
    for label in panel.labels:
        if label is not None:
            counts[label] = counts.get(label, 0) + 1
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def _num_entries(panel: MapPanel) -> int:
    """Lines under a panel."""
    return len(_counted(panel)) + len(panel.emergent) + 1 + bool(panel.note)


def _draw(axis: "Axes", panel: MapPanel) -> None:
    labels = np.array(panel.labels, dtype=object)
    area = min(_LARGEST, max(_SMALLEST, 4000 / max(1, len(labels))))
    axis.set(title=f"{panel.title} ({len(labels):,})")
    axis.grid(False)
    axis.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    axis.margins(0.08)
    for spine in axis.spines.values():  # there are no axes to a map: a frame
        spine.set(visible=True, color=GRID)
    num_others = sum(label is None for label in panel.labels)
    if num_others:
        points = panel.points[np.array([label is None for label in panel.labels])]
        told = f"others ({num_others:,})"
        axis.scatter(points[:, 0], points[:, 1], s=0.7 * area, c=_OTHERS, marker="o", linewidths=0, label=told)
    for number, (name, count) in enumerate(_counted(panel)):
        points = panel.points[labels == name]
        axis.scatter(
            points[:, 0],
            points[:, 1],
            s=area,
            c=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[(number // len(COLOURS) * 3 + number % 3) % len(_MARKERS)],
            edgecolors="white",
            linewidths=0.3,
            label=f"{short(name, _LONGEST_NAME)} ({count:,})",
        )
    for name, rows in panel.emergent.items():
        _outline(axis, name, panel.points[np.array(rows, dtype=np.int64)], area)
    if len(labels):
        title = panel.note or None
        axis.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.02),
            fontsize=10,
            handletextpad=0.4,
            title=title,
            title_fontsize=10,
        )


def _outline(axis: "Axes", name: str, points: Float32[np.ndarray, "N 2"], area: float) -> None:
    from matplotlib.patheffects import withStroke

    corners = hull(core(points))
    outline = np.concatenate([corners, corners[:1]])
    axis.scatter(points[:, 0], points[:, 1], s=2.2 * area, facecolors="none", edgecolors=VERMILION, linewidths=0.9)
    told = f"emerging: {short(name, _LONGEST_NAME)} ({len(points):,})"
    axis.plot(*outline.T, color=VERMILION, linewidth=2.0, label=told, solid_joinstyle="round")
    axis.annotate(
        short(name, _LONGEST_NAME),
        corners[np.argmax(corners[:, 1])],
        xytext=(0, 5),
        textcoords="offset points",
        fontsize=10,
        color=INK,
        ha="center",
        va="bottom",
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )
