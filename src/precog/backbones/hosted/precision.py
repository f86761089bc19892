"""FP32 that is FP32: by default a GPU's convolutions round to TF32, ten bits, and no two paths agree any more."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cudnn


@contextmanager
def full_precision() -> Iterator[None]:
    """Within, neither convolutions nor matrix products of FP32 are rounded to TF32; after it, as it was before."""
    matmul = torch.backends.cuda.matmul
    convolutions, products = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32 = matmul.allow_tf32 = False
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = convolutions, products
