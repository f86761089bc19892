"""A fixed rotation of 64 reals that spreads outliers over all of them, so that they set no scale alone.

R = H·D / 8: signs D, then the Hadamard matrix H of order 64, H_ij = (−1)^(number of bits that i and j share). Sign i is
bit i of the first eight bytes, little-endian, of SHA-256("precog"): a 1 is a minus. R is orthonormal: no norm changes.
"""

import hashlib
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

GROUP = 64  # a power of four: the factor 1/8 is exact
GROWTH = 8  # no real of a rotated group is larger than √64 times the largest before


@lru_cache(maxsize=1)
def rotation() -> Float32[Tensor, "64 64"]:
    """R, for columns: a row vector g of 64 reals becomes g Rᵀ, and comes back as (g Rᵀ) R."""
    bits = int.from_bytes(hashlib.sha256(b"precog").digest()[:8], "little")
    signs = np.array([-1.0 if bits >> i & 1 else 1.0 for i in range(GROUP)], np.float32)
    hadamard = np.array([[1 - 2 * ((i & j).bit_count() & 1) for j in range(GROUP)] for i in range(GROUP)], np.float32)
    return torch.from_numpy(hadamard * signs / np.float32(GROWTH))
