"""The mask of grounded decoding for answers that are known: every token of many rows at once, as a loss needs it."""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn import functional


def span_mask(
    context: Int64[Tensor, "R T"], context_length: Int64[Tensor, " R"], answer: Int64[Tensor, "R A"]
) -> Bool[Tensor, "R A T"]:
    """Where each answer token may be taken from: position p is allowed for token j when the j answer tokens before it
    stand right before p in the chunk. Token 0 may be taken from anywhere after the boundary token.

    Args:
        context: the chunks' tokens, a boundary token in front, right-padded with anything.
        context_length: tokens of each chunk, the boundary counted.
        answer: the answers' tokens, right-padded with anything.
    """
    length = context.shape[1]
    position = torch.arange(length, device=context.device)
    allowed = (position[None] >= 1) & (position[None] < context_length[:, None])
    inside = allowed
    masks = [allowed]
    for j in range(answer.shape[1] - 1):
        matched = allowed & (context == answer[:, j, None])
        allowed = functional.pad(matched[:, :-1], (1, 0)) & inside
        masks.append(allowed)
    return torch.stack(masks, dim=1)
