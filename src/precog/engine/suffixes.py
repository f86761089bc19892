"""Suffix arrays over a chunk's token ids: where every span of it begins, in O(log L) instead of by reading it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from precog.errors import InputError

Ids = NDArray[np.integer]


def build_suffix_array(token_ids: Sequence[int] | Ids) -> NDArray[np.uint16] | NDArray[np.uint32]:
    """Start positions of all suffixes in the order of their tokens, a suffix before those it is a prefix of.

    Prefix doubling: after k rounds suffixes are ordered by their first 2^k tokens. O(L log² L).

    Args:
        token_ids: the chunk's ids.

    Returns:
        uint16 up to 65,536 tokens, uint32 beyond; as long as the chunk.

    Raises:
        InputError: an id is negative, or the array has more than one axis.
    """
    ids = np.asarray(token_ids, dtype=np.int64)
    if ids.ndim != 1 or (ids.size and ids.min() < 0):
        raise InputError("a suffix array needs a row of token ids", given=f"shape {ids.shape}")
    length = len(ids)
    rank = np.unique(ids, return_inverse=True)[1].astype(np.int64) + 1  # 0 is the end of the text
    order = np.argsort(rank, kind="stable")
    reach = 1
    while reach < length:
        after = np.zeros(length, np.int64)
        after[:-reach] = rank[reach:]
        key = rank * (length + 2) + after
        order = np.argsort(key, kind="stable")
        sorted_key = key[order]
        fresh = np.empty(length, np.int64)
        fresh[order] = np.concatenate(([0], (sorted_key[1:] != sorted_key[:-1]).cumsum())) + 1
        rank = fresh
        if rank.max() == length:
            break
        reach *= 2
    return order.astype(np.uint16) if length <= 1 << 16 else order.astype(np.uint32)


def successors(ids: Ids, suffixes: Ids, low: int, high: int, depth: int) -> tuple[Ids, NDArray[np.int64]]:
    """What may follow a prefix of ``depth`` tokens whose occurrences are ``suffixes[low:high]``.

    Returns:
        Distinct next tokens, ascending, and n + 1 bounds: token i follows the occurrences between bounds i and i + 1.
        An occurrence at the end of the chunk has no next token and lies before the first bound.
    """
    positions = suffixes[low:high].astype(np.int64) + depth
    ended = int((positions >= len(ids)).sum())  # at most one, and it sorts first
    following = ids[positions[ended:]]
    fresh = np.ones(len(following), np.bool_)
    fresh[1:] = following[1:] != following[:-1]
    starts = np.flatnonzero(fresh).astype(np.int64)
    bounds = np.append(starts, len(following)) + low + ended
    return following[starts], bounds


def check_suffix_array(ids: Ids, suffixes: Ids) -> None:
    """Compare a stored suffix array with its chunk in O(L): a permutation whose first tokens ascend.

    Raises:
        InputError: it belongs to another chunk.
    """
    if len(ids) != len(suffixes) or not np.array_equal(np.sort(suffixes), np.arange(len(ids))):
        raise InputError("a suffix array belongs to another chunk", given=len(suffixes), expected=len(ids))
    if (np.diff(ids[suffixes].astype(np.int64)) < 0).any():
        raise InputError("a suffix array is not in order", given=f"{len(ids)} tokens")
