"""Rounding that makes up for itself: each column's error is spread over the columns still to be rounded.

For inputs with second moments H = E[x xᵀ] the error of a row is (w − ŵ)ᵀ H (w − ŵ). Rounding column j by an error e
costs least when the later columns move by −e · U[j, j+1:] / U[j, j], with Uᵀ U = H⁻¹ and U upper triangular (the
optimal brain surgeon's update; GPTQ, arXiv 2210.17323). Everything is FP64 on the CPU, so that it is the same wherever
it runs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.tenns.quantise import best_scale, group_size, pack, pack4, round4
from precog.errors import ModelError

DAMPING = 0.01  # of the mean of H's diagonal, added to it: few tokens leave directions that nothing was seen of
_BLOCK = 64


def round_compensated(
    weight: Float[Tensor, "rows columns"], scheme: str, moments: Float[Tensor, "columns columns"]
) -> dict[str, Tensor]:
    """The stored tensors of a matrix, as `pack` makes them, rounded for the inputs it will meet.

    Args:
        weight: the matrix.
        scheme: an ``int4`` one; the others round each weight by itself, as `pack` does.
        moments: E[x xᵀ] of its inputs.

    Raises:
        ModelError: as `pack`, or the moments are not finite.
    """
    if not scheme.startswith("int4"):
        return pack(weight, scheme)
    if not torch.isfinite(weight).all() or not torch.isfinite(moments).all():
        raise ModelError(f"weights or their inputs are not finite: a {tuple(weight.shape)} matrix")
    rows, columns = weight.shape
    size = group_size(scheme, columns)
    w = weight.detach().cpu().double().clone()
    h = moments.detach().cpu().double().clone()
    h.diagonal().add_(DAMPING * h.diagonal().mean().clamp_min(1e-12))
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    q = torch.empty_like(w)
    scales = torch.empty(rows, columns // size, dtype=torch.float16)
    importance = upper.diagonal().reciprocal().square().view(columns // size, size)
    for start in range(0, columns, min(_BLOCK, size)):
        stop = min(start + min(_BLOCK, size), columns)
        if start % size == 0:
            group = start // size
            grouped = w[:, None, start : start + size]
            scales[:, group] = best_scale(grouped, importance[group : group + 1])[:, 0, 0]
        scale = scales[:, group].double()
        errors = torch.empty(rows, stop - start, dtype=torch.float64)
        for j in range(start, stop):
            q[:, j] = round4(w[:, j, None], scale[:, None])[:, 0]
            error = (w[:, j] - q[:, j] * scale) / upper[j, j]
            w[:, j + 1 : stop] -= error[:, None] * upper[j, j + 1 : stop]
            errors[:, j - start] = error
        w[:, stop:] -= errors @ upper[start:stop, stop:]
    return pack4(q, scales)
