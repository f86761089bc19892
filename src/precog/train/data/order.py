"""The order in which weighted sources are walked: a function of the seed and the step, without stored state.

Every source has an endless order of its own, a fresh permutation per epoch; a step takes from each source in proportion
to its share. Sources know their sizes only; what the places are (chunks, windows) is the caller's matter.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError

__all__ = ["SharedOrder"]


class SharedOrder:
    """Which items of which source the steps take.

    With fractional shares an item at the edge of two steps may appear in both.

    Args:
        sizes: items of each source, at least 1.
        shares: relative shares of the sources.
        per_step: items of a step, over all processes.
        seed: source of every choice.

    Raises:
        TrainingError: no source, or a share that is not a positive number.
    """

    def __init__(self, sizes: Sequence[int], shares: Sequence[int | float], per_step: int, *, seed: int) -> None:
        weights = np.array(shares, dtype=np.float64)
        if not len(weights) or not (np.isfinite(weights).all() and (weights > 0).all()):
            raise TrainingError(
                "the data mixture cannot be used",
                given=weights.tolist(),
                expected="at least one source, every share above 0",
            )
        self._sizes, self._shares = list(sizes), weights / weights.sum()
        self._per_step, self._seed = per_step, seed

    def step(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and item of each of the step's places, shuffled."""
        rng = np.random.default_rng((self._seed, step, 0))
        total = self._per_step
        edges = np.floor(np.concatenate([[0.0], np.cumsum(self._shares)]) * total + rng.random()).astype(np.int64)
        counts = np.diff(np.clip(edges - edges[0], 0, total))
        counts[-1] += total - counts.sum()
        source = np.repeat(np.arange(len(counts)), counts)
        item = np.concatenate([
            self._items(number, int(step * total * share), int(count))
            for number, (share, count) in enumerate(zip(self._shares, counts, strict=True))
        ])  # fmt: skip
        shuffle = rng.permutation(total)
        return source[shuffle], item[shuffle]

    def epoch(self, source: int, step: int) -> int:
        """How often a source has been walked through when a step begins."""
        return int(step * self._per_step * self._shares[source]) // self._sizes[source]

    def _items(self, source: int, first: int, count: int) -> NDArray[np.int64]:
        """Items at places ``first … first + count − 1`` of a source's order: an affine permutation per epoch."""
        size = self._sizes[source]
        place = np.arange(first, first + count, dtype=np.int64)
        epoch, place = place // size, place % size
        out = np.empty(count, dtype=np.int64)
        for number in np.unique(epoch):
            rng = np.random.default_rng((self._seed, source, int(number), 7))
            stride = int(rng.integers(size // 3 + 1, size + 1))
            while np.gcd(stride, size) != 1:
                stride += 1
            here = epoch == number
            out[here] = (place[here] * stride + int(rng.integers(size))) % size
        return out
