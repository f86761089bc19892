"""Parallel scan of the diagonal recurrence, differentiable, from any initial state, with document resets.

The scan doubles its reach log2(T) times (Hillis and Steele): after k rounds every position holds the state that
2^k tokens produce. Nothing is divided, so strong decays cannot overflow. The backward pass is the same scan run
from the other end: with g_t = ∂L/∂h_t summed over all later uses, g_t = dh_t + conj(a_{t+1}) g_{t+1}.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from precog.ops.reference import Modes, ModeState


def _multiply(a: Tensor, b: Tensor) -> Tensor:
    real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
    imag = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
    return torch.stack((real, imag), dim=-1)


def _conjugate(a: Tensor) -> Tensor:
    return torch.stack((a[..., 0], -a[..., 1]), dim=-1)


def _scan(decay: Tensor, drive: Tensor) -> Tensor:
    """States [B, T, M, 2] from a zero initial state."""
    reach = 1
    length = drive.shape[1]
    while reach < length:
        drive = torch.cat((drive[:, :reach], drive[:, reach:] + _multiply(decay[:, reach:], drive[:, :-reach])), dim=1)
        if 2 * reach < length:
            decay = torch.cat((decay[:, :reach], _multiply(decay[:, reach:], decay[:, :-reach])), dim=1)
        reach *= 2
    return drive


class _DiagonalScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, decay: Tensor, drive: Tensor) -> Tensor:
        states = _scan(decay, drive)
        ctx.save_for_backward(decay, states)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        decay, states = ctx.saved_tensors
        shifted = torch.cat((decay[:, 1:], torch.zeros_like(decay[:, :1])), dim=1)
        accumulated = _scan(_conjugate(shifted).flip(1), gradients[0].flip(1)).flip(1)
        before = torch.cat((torch.zeros_like(states[:, :1]), states[:, :-1]), dim=1)
        return _multiply(accumulated, _conjugate(before)), accumulated


def diagonal_scan(
    decay: Modes, drive: Modes, initial: ModeState | None = None, resets: Bool[Tensor, "B T"] | None = None
) -> Float[Tensor, "B T M 2"]:
    """Every state h_t = a_t ⊙ h_{t−1} + u_t, all tokens at once.

    Args:
        decay: a, complex as (re, im).
        drive: u, complex as (re, im); its dtype is the dtype of the result.
        initial: h before the first token; zero when None.
        resets: True where h_{t−1} counts as zero.
    """
    if resets is not None:
        decay = decay * (~resets)[:, :, None, None].to(decay.dtype)
    if initial is not None:
        first = drive[:, :1] + _multiply(decay[:, :1], initial.to(drive.dtype)[:, None])
        drive = torch.cat((first, drive[:, 1:]), dim=1)
    states: Tensor = _DiagonalScan.apply(decay, drive)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return states
