"""Sums over every segment of a sequence: the exponents of decays that reach from one token to another."""

import torch
from jaxtyping import Float
from torch import Tensor


def segment_sums(steps: Float[Tensor, "*any T"]) -> Float[Tensor, "*any T T"]:
    """Entry (t, s) is steps_{s+1} + … + steps_t for s ≤ t (0 where s = t), and −∞ for s > t.

    Every sum is taken over its own terms. Differences of one running sum would lose the short segments' digits once
    the running sum is large: an error of 6e-5 in a decay after sums of 640, at FP32.
    """
    length = steps.shape[-1]
    place = torch.arange(length, device=steps.device)
    later, earlier = place[:, None], place[None, :]
    spread = steps[..., None].expand(*steps.shape, length).masked_fill(later <= earlier, 0)
    return spread.cumsum(-2).masked_fill(later < earlier, float("-inf"))
