"""One token at a time: the arithmetic of `TennsBlock.forward` for T = 1, without the machinery of a scan.

Every row is one branch. What a step computes equals what the scan computes for one more token (tested); it is here
because a scan spends more time on its bookkeeping than on one token.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.model import BOUNDARY_ID, TennsModel
from precog.ops import diagonal_step, outer_step


def model_step(
    model: TennsModel,
    tokens: Int64[Tensor, " B"],
    state: Float[Tensor, "L B S"],
    tail: Float[Tensor, "L B J N"],
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "B d"], Float[Tensor, "L B S"], Float[Tensor, "L B J N"], Float[Tensor, "L B g"]]:
    """Read one token per row.

    Args:
        model: the network.
        tokens: one id per row.
        state: recurrent state, FP32 or FP64.
        tail: convolution inputs before the token, oldest first; zeros at a boundary.
        dtype: compute dtype.

    Returns:
        Hidden vectors after the last norm, new state, new tail and Δ.
    """
    x = model.embedding(tokens).to(dtype)
    if model.config.conv_boundary == "segment":  # a boundary token opens an empty window
        tail = tail * (tokens != BOUNDARY_ID)[None, :, None, None].to(tail.dtype)
    states, tails, times = [], [], []
    for i, block in enumerate(model.blocks):
        assert isinstance(block, TennsBlock)
        x, after, window, dt = _block_step(block, x, state[i], tail[i])
        states.append(after)
        tails.append(window)
        times.append(dt)
    return model.norm(x), torch.stack(states), torch.stack(tails), torch.stack(times)


def _block_step(block: TennsBlock, x: Tensor, state: Tensor, tail: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    config = block.config
    v, z = block.project_in(block.norm(x)).chunk(2, dim=-1)
    window = torch.cat((tail.to(v.dtype), v[:, None]), dim=1)
    v = (window * block.conv_weight.to(v.dtype).flip(1).T).sum(1) + block.conv_bias.to(v.dtype)
    v = functional.silu(v)
    e = functional.silu(block.bottleneck(v))
    dt = block.delta(e, state.dtype)
    mixed, after = (_diagonal if config.mixer == "diagonal" else _outer)(block, v, e, dt, state)
    y = block.mix(mixed) + block.skip.to(v.dtype) * v
    return x + block.project_out(y * functional.silu(z)), after, window[:, 1:], dt


def _diagonal(block: TennsBlock, v: Tensor, e: Tensor, dt: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    config = block.config
    modes = v.shape[1] // 2
    step = dt.repeat_interleave(config.modes_per_dt, dim=-1)
    real, omega = block.decay_rates()
    radius, phase = (step * real).exp(), step * omega
    decay = torch.stack((radius * phase.cos(), radius * phase.sin()), dim=-1)
    beta = block.write(e) if config.selective else block.write.bias.to(v.dtype).expand_as(v)
    written = beta.to(dt.dtype) * v.to(dt.dtype)
    drive = step[..., None] * torch.stack((written[:, :modes], written[:, modes:]), dim=-1)
    after = diagonal_step(decay, drive, torch.stack((state[:, :modes], state[:, modes:]), dim=-1))
    stacked = torch.cat((after[..., 0], after[..., 1]), dim=-1)
    shown = stacked if block.state_norm is None else block.state_norm(stacked)
    shown = shown.to(v.dtype)
    if config.readout == "question":
        shown = shown * block.read(e)
    return shown, stacked


def _outer(block: TennsBlock, v: Tensor, e: Tensor, dt: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    config = block.config
    rows, heads, k, p = v.shape[0], config.heads, config.coefficients, config.channels
    real, _ = block.decay_rates()
    write = block.address(block.write(e).view(rows, heads, k)) * dt[..., None].to(e.dtype)
    read = block.address(block.read(e).view(rows, heads, k))
    value = block.value(v).view(rows, heads, p)
    readout, after = outer_step(dt * real, write, value, read, state.view(rows, heads, k, p))
    readout = readout.to(v.dtype)
    if block.state_norm is not None:
        readout = block.state_norm(readout)
    return readout.reshape(rows, heads * p), after.reshape(rows, heads * k * p)
