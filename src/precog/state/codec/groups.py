"""Groups of 64 reals at a few bits each: the smallest of a group and a step as FP16, then a code per real.

The real is low + code · step. The step is rounded up and low down, so that the codes reach both ends of a group:
nothing is clipped, and no real is off by more than half a step.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from precog.state.codec.rotation import GROUP, rotation

_TOGETHER = 4096  # groups worked on at a time: a megabyte, which stays in the cache
Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Coded:
    """Groups of reals, rounded.

    Attributes:
        ends: per group low and step, [n, 2].
        codes: bytes; of 4 bits the first of two neighbours is the lower half, [n, 64 · bits / 8].
    """

    ends: NDArray[np.float16]
    codes: NDArray[np.uint8]


def rounded(groups: Reals, bits: int) -> Coded:
    """The nearest codes of groups [n, 64] whose reals are below 2^15."""
    ends = _ends(groups, bits)
    low, step = ends.astype(np.float32).T
    codes = np.empty(groups.shape, np.uint8)
    inverse = np.divide(1, step, out=np.zeros_like(step), where=step > 0)
    for part in _parts(len(groups)):
        exact = (groups[part] - low[part, None]) * inverse[part, None]
        codes[part] = np.minimum(np.rint(exact), 2**bits - 1)
    return Coded(ends, np.bitwise_or(codes[:, ::2], codes[:, 1::2] << 4) if bits == 4 else codes)


def restored(coded: Coded, bits: int, factors: Reals, *, rotates: bool) -> Reals:
    """The reals [n, 64] of codes.

    Args:
        coded: the groups.
        bits: of a code.
        factors: what each group is multiplied by, a power of two.
        rotates: whether the groups were rotated before they were rounded.
    """
    low, step = (coded.ends.astype(np.float32) * factors[:, None]).T
    reals = np.empty((len(low), GROUP), np.float32)
    room = np.empty((min(_TOGETHER, len(low)), GROUP), np.float32)
    for part in _parts(len(low)):
        made = room[: part.stop - part.start] if rotates else reals[part]
        if bits == 4:
            np.take(_pairs(), coded.codes[part], out=made.view(np.uint64), mode="clip")
            np.multiply(made, step[part, None], out=made)
        else:
            np.multiply(coded.codes[part], step[part, None], out=made)
        np.add(made, low[part, None], out=made)
        if rotates:
            torch.mm(torch.from_numpy(made), rotation(), out=torch.from_numpy(reals[part]))
    return reals


def rotated(groups: Reals) -> Reals:
    """Groups [n, 64], each turned by the fixed rotation."""
    turned: Reals = (torch.from_numpy(groups) @ rotation().T).numpy()
    return turned


def steps(groups: Reals, bits: int) -> Reals:
    """The step of each group."""
    return _ends(groups, bits)[:, 1].astype(np.float32)


def _ends(groups: Reals, bits: int) -> NDArray[np.float16]:
    tensor = torch.from_numpy(groups)
    smallest, largest = tensor.amin(dim=1).numpy(), tensor.amax(dim=1).numpy()
    low = _toward(smallest, -np.inf)
    width: Reals = largest - low.astype(np.float32)
    step = _toward(width / np.float32(2**bits - 1), np.inf)
    return np.stack((low, step), axis=1)


def _toward(values: Reals, limit: float) -> NDArray[np.float16]:
    """FP16 numbers that lie on one side of what they stand for."""
    near = values.astype(np.float16)
    wrong = near.astype(np.float32) < values if limit > 0 else near.astype(np.float32) > values
    return np.where(wrong, np.nextafter(near, np.float16(limit)), near)


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + _TOGETHER, count)) for start in range(0, count, _TOGETHER)]


@lru_cache(maxsize=1)
def _pairs() -> NDArray[np.uint64]:
    """The two codes of every byte as two FP32 numbers in eight bytes, so that one look-up makes both."""
    byte = np.arange(256)
    return np.stack((byte & 15, byte >> 4), axis=1).astype(np.float32).view(np.uint64).ravel()
