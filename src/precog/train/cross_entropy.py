"""Cross-entropy of hidden states against the vocabulary, a piece at a time, so that the logits never exist as a whole.

For 16,384 tokens and 32,000 pieces the logits and their gradient take 4 GB in FP32. Here a piece of rows is scored,
its gradients with respect to hidden states and output matrix are taken at once, and its logits are dropped: no
arithmetic is done twice, and the memory is that of one piece.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from precog.backbones.tenns.model import TennsModel

IGNORED = -100
PIECE_ROWS = 2048
"""Rows whose logits exist at the same time."""


def _losses(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of cross-entropies, and its gradient by the logits in their dtype."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    counted = targets != IGNORED
    index = targets.where(counted, 0)[:, None]
    normal = wide.logsumexp(-1, keepdim=True)
    total = (normal - wide.gather(1, index))[:, 0].where(counted, 0).sum()
    vocabulary = torch.arange(wide.shape[1], device=wide.device)[None]
    gradient = ((wide - normal).exp() - (vocabulary == index).to(wide.dtype)) * counted[:, None]
    return total, gradient.to(logits.dtype)


@functools.cache
def _compiled() -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return torch.compile(_losses, dynamic=True)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rows: int, compiled: bool) -> Tensor:
        losses = _compiled() if compiled else _losses
        matrix = weight.to(hidden.dtype)
        need_hidden, need_weight = ctx.needs_input_grad[:2]
        by_hidden = torch.empty_like(hidden) if need_hidden else None
        by_weight = torch.zeros_like(weight) if need_weight else None
        total = hidden.new_zeros((), dtype=torch.float64 if hidden.dtype == torch.float64 else torch.float32)
        for piece in range(0, len(hidden), rows):
            part = slice(piece, piece + rows)
            loss, gradient = losses(hidden[part] @ matrix.T, targets[part])
            total = total + loss
            if by_hidden is not None:
                torch.mm(gradient, matrix, out=by_hidden[part])
            if by_weight is not None:
                by_weight += gradient.T @ hidden[part]
        ctx.save_for_backward(by_hidden, by_weight)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        by_hidden, by_weight = ctx.saved_tensors
        scale = gradients[0]
        return (
            None if by_hidden is None else by_hidden * scale.to(by_hidden.dtype),
            None if by_weight is None else by_weight * scale.to(by_weight.dtype),
            None,
            None,
            None,
        )


def linear_cross_entropy(
    hidden: Float[Tensor, "n d"],
    weight: Float[Tensor, "V d"],
    targets: Int64[Tensor, " n"],
    piece_rows: int = PIECE_ROWS,
    compiled: bool = False,
) -> Float[Tensor, ""]:
    """Sum of the cross-entropies of ``hidden @ weight.T`` against targets, in FP32; targets of −100 do not count.

    Products are computed in the dtype of ``hidden``; the weight's gradient is added up in the weight's dtype.

    Args:
        hidden: what the model leaves behind.
        weight: output matrix.
        targets: token ids.
        piece_rows: rows whose logits exist at the same time; changes memory and rounding only.
        compiled: compile what happens between the products.
    """
    total: Tensor = _LinearCrossEntropy.apply(hidden, weight, targets, piece_rows, compiled)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return total


def hidden_cross_entropy(
    model: TennsModel, hidden: Float[Tensor, "n d"], targets: Int64[Tensor, " n"], compiled: bool = False
) -> Float[Tensor, ""]:
    """``linear_cross_entropy`` with a model's output matrix."""
    matrix = model.embedding.weight if model.head is None else model.head.weight
    return linear_cross_entropy(hidden, matrix, targets, compiled=compiled)


def whole_cross_entropy(
    hidden: Float[Tensor, "n d"], weight: Float[Tensor, "V d"], targets: Int64[Tensor, " n"]
) -> Float[Tensor, ""]:
    """The same from whole logits: what the pieces are held against."""
    logits = functional.linear(hidden, weight.to(hidden.dtype))
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return functional.cross_entropy(wide, targets, ignore_index=IGNORED, reduction="sum")
