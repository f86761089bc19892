"""What a memory holds, domain by domain: a point per deposit, coloured by sub-cluster, with the groups that emerge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32

from precog.errors import InputError
from precog.figures.canvas import COLOURS, INK, VERMILION, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_OTHERS = "#B5B5B5"
_LONGEST_NAME = 34
_LEGEND_ROWS_INCHES = 0.24


@dataclass(frozen=True, eq=False)
class MapPanel:
    """One domain of a memory, laid out on a plane.

    Attributes:
        title: the domain's name.
        points: [N, 2].
        labels: the sub-cluster of each point; None for those that none holds.
        emergent: name of each group that emerges ▸ rows of its points, outlined.
    """

    title: str
    points: Float32[np.ndarray, "N 2"]
    labels: tuple[str | None, ...]
    emergent: Mapping[str, Sequence[int]] = field(default_factory=dict)

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


def memory_map(panels: Sequence[MapPanel], path: Path, *, title: str) -> None:
    """Draw the domains side by side; a colour and a marker per sub-cluster, others grey, outlines where groups emerge.

    Args:
        panels: one per domain; at most six sub-clusters have colours of their own, further ones another marker.
        path: a .png or .svg file.
        title: stands over the picture.

    Raises:
        InputError: there is nothing to draw.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    if not any(len(panel.points) for panel in panels):
        raise InputError("there is no memory to draw", given="0 points", expected="at least one")
    entries = max(len(_counted(panel)) + len(panel.emergent) + 1 for panel in panels)
    height = 4.6 + _LEGEND_ROWS_INCHES * entries
    with picture(path, len(panels), title=title, width_inches=0.6 + 5.0 * len(panels), height_inches=height) as axes:
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel)


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


def _draw(axis: "Axes", panel: MapPanel) -> None:
    labels = np.array(panel.labels, dtype=object)
    axis.set(title=f"{panel.title} ({len(labels):,})")
    axis.grid(False)
    axis.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    num_others = sum(label is None for label in panel.labels)
    if num_others:
        points = panel.points[np.array([label is None for label in panel.labels])]
        axis.scatter(
            points[:, 0], points[:, 1], s=9, c=_OTHERS, marker="o", linewidths=0, label=f"others ({num_others:,})"
        )
    for number, (name, count) in enumerate(_counted(panel)):
        points = panel.points[labels == name]
        axis.scatter(
            points[:, 0],
            points[:, 1],
            s=15,
            c=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[(number // len(COLOURS) * 3 + number % 3) % len(_MARKERS)],
            edgecolors="white",
            linewidths=0.3,
            label=f"{_short(name)} ({count:,})",
        )
    for name, rows in panel.emergent.items():
        corners = hull(panel.points[np.array(rows, dtype=np.int64)])
        outline = np.concatenate([corners, corners[:1]])
        told = f"emerging: {_short(name)} ({len(rows):,})"
        axis.plot(*outline.T, color=VERMILION, linewidth=2.0, label=told, solid_joinstyle="round")
        axis.annotate(_short(name), corners[np.argmax(corners[:, 1])], fontsize=8, color=INK, ha="center", va="bottom")
    if len(labels):
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), fontsize=9, handletextpad=0.4, markerscale=1.6)


def _short(name: str) -> str:
    """A name as a label, never taken for a formula, nor, from a leading underscore, for one that nobody is to see."""
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    name = name.replace("$", r"\$")
    return f" {name}" if name.startswith("_") else name
