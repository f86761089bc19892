"""Texts beside points, each where it covers neither another text, nor a point, nor a line, if there is such a place."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from precog.figures.canvas import INK
from precog.figures.lines import Mark
from precog.figures.told import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

_LONGEST = 40
_OFFSETS = [
    (float(reach * x), float(reach * y))
    for reach in (9, 18, 30, 45)
    for x, y in ((1, 0), (1, 0.8), (1, -0.8), (-1, 0.8), (-1, -0.8), (-1, 0), (0, 1), (0, -1))
]
_ON_TEXT, _ON_POINT, _NEAR = 1e6, 30.0, 0.05
_SIDES = {1: "left", 0: "center", -1: "right"}
_ENDS = {1: "bottom", 0: "center", -1: "top"}


def place(panel: "Axes", marks: Sequence[Mark], *, needed: bool = True) -> None:
    """Write the texts of ``marks`` beside them; to be called last, when limits, lines and key are there.

    Args:
        panel: holds them.
        marks: in the order of their importance.
        needed: whether a text for which no place is free is written all the same, where it covers the least;
            otherwise it is left out, as it is where it would stand so far away that it needed a line to its point.
    """
    if not marks:
        return
    from matplotlib.patheffects import withStroke

    panel.figure.draw_without_rendering()  # type: ignore[union-attr]  # lays the panels out
    inside = panel.get_window_extent()
    points = panel.transData.transform([(mark.x, mark.y) for mark in marks])
    ink = _ink(panel)
    placed: list[Bbox] = []
    for mark, _point in zip(marks, points, strict=True):
        text = panel.annotate(
            short(mark.text, _LONGEST),
            (mark.x, mark.y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=10,
            color=INK,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
        text.set_in_layout(False)
        best, least = (0.0, 0.0), np.inf
        for offset in _OFFSETS if needed else _OFFSETS[: len(_OFFSETS) // 2]:
            _move(text, offset)
            box = text.get_window_extent().padded(1.5)
            outside = box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0 or box.y1 > inside.y1
            cost = _ON_TEXT * (outside + sum(box.overlaps(other) for other in placed))
            cost += _covered(box, ink) + _ON_POINT * _covered(box, points) + _NEAR * float(np.abs(offset).sum())
            if cost < least:
                best, least = offset, cost
        if least >= _ON_TEXT and not needed:
            text.remove()
            continue
        _move(text, best)
        if max(map(abs, best)) > 20:
            panel.annotate(
                "",
                (mark.x, mark.y),
                xytext=best,
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.7},
            ).set_in_layout(False)
        placed.append(text.get_window_extent().padded(1.5))


def _move(text: object, offset: tuple[float, float]) -> None:
    x, y = offset
    text.set_position(offset)  # type: ignore[attr-defined]
    text.set_horizontalalignment(_SIDES[int(np.sign(x))])  # type: ignore[attr-defined]
    text.set_verticalalignment(_ENDS[int(np.sign(y))])  # type: ignore[attr-defined]


def _covered(box: "Bbox", points: np.ndarray) -> int:
    x, y = points[:, 0], points[:, 1]
    return int(((box.x0 <= x) & (x <= box.x1) & (box.y0 <= y) & (y <= box.y1)).sum())


def _ink(panel: "Axes") -> np.ndarray:
    """Pixels, some apart, along every line of the panel and at every point of a cloud."""
    found = [np.empty((0, 2))]
    for line in panel.lines:
        track = line.get_transform().transform(line.get_xydata())
        found.append(track)
        for start, end in itertools.pairwise(track):
            count = int(np.clip(np.abs(end - start).max() // 4, 1, 400))
            found.append(start + (end - start) * np.linspace(0, 1, count + 1)[:, None])
    for cloud in panel.collections:
        places = np.asarray(cloud.get_offsets(), float)
        found += [cloud.get_offset_transform().transform(places)]
    return np.concatenate(found)
