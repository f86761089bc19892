"""How far apart groups of keys lie: mean distance between groups over mean distance within them."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int

__all__ = ["separation", "separation_loop"]

_BLOCK_ROWS = 512


Distance = Literal["euclidean", "cosine"]


def separation(
    points: Float32[np.ndarray, "N D"], labels: Int[np.ndarray, " N"], distance: Distance = "euclidean"
) -> float | None:
    """Inter / intra: mean distance over all pairs of points of different groups, over that of pairs of the same group.

    1 is no separation at all. Paper, appendix "Clustering substrate validation", which leaves open what distance it
    measures; that by cosine spreads ratios further.

    Args:
        points: keys of unit norm; for Euclidean distances any points.
        labels: the group of each.
        distance: "euclidean", or "cosine": half its square, where points are unit vectors.

    Returns:
        None where no two points share a group, all share one, or those of a group are all the same.
    """
    wide = points.astype(np.float64)
    squares = np.einsum("nd,nd->n", wide, wide)
    within = between = 0.0
    num_within = num_between = 0
    for start in range(0, len(wide), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        squared = squares[rows, None] + squares[None] - 2 * (wide[rows] @ wide.T)
        distances = np.maximum(squared, 0.0) / 2
        if distance == "euclidean":
            distances = np.sqrt(2 * distances)
        later = np.arange(len(wide))[None] > np.arange(start, min(start + _BLOCK_ROWS, len(wide)))[:, None]
        same = labels[rows, None] == labels[None]
        within += float(distances[same & later].sum())
        between += float(distances[~same & later].sum())
        num_within += int((same & later).sum())
        num_between += int((~same & later).sum())
    return _ratio(within, num_within, between, num_between)


def separation_loop(
    points: Float32[np.ndarray, "N D"], labels: Sequence[int], distance: Distance = "euclidean"
) -> float | None:
    """The same, pair by pair: what `separation` is tested against."""
    within: list[float] = []
    between: list[float] = []
    for a, b in combinations(range(len(points)), 2):
        pair = zip(points[a].tolist(), points[b].tolist(), strict=True)
        squared = sum((x - y) ** 2 for x, y in pair)
        length = math.sqrt(squared) if distance == "euclidean" else squared / 2
        (within if labels[a] == labels[b] else between).append(length)
    return _ratio(math.fsum(within), len(within), math.fsum(between), len(between))


def _ratio(within: float, num_within: int, between: float, num_between: int) -> float | None:
    if not num_within or not num_between or within <= 0:
        return None
    return (between / num_between) / (within / num_within)
