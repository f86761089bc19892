"""The suffix array of a chunk's tokens: what grounded decoding finds continuations with, without reading anything."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64


def suffix_array(token_ids: Sequence[int]) -> Int64[np.ndarray, " n"]:
    """Starts of all suffixes in the order of their tokens, a suffix that ends first being the smaller; O(n log² n)."""
    ids = np.asarray(token_ids, np.int64)
    n = len(ids)
    rank = np.unique(ids, return_inverse=True)[1]
    length = 1
    while True:
        after = np.zeros(n, np.int64)
        after[: max(0, n - length)] = rank[length:] + 1
        pair = rank * (n + 1) + after
        order = np.argsort(pair, kind="stable")
        new = np.concatenate(([0], np.cumsum(pair[order][1:] != pair[order][:-1])))
        if n == 0 or new[-1] == n - 1:
            return order
        rank = np.empty(n, np.int64)
        rank[order] = new
        length *= 2
