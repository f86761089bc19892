"""Outer-product recurrence over all tokens at once: one kernel on a CUDA device, matrix products of torch elsewhere.

In the torch form, within a chunk of c tokens every pair (t, s ≤ t) meets in a c × c matrix; between chunks only the
state passes. All decays appear as exp of a sum of non-positive numbers over (s, t], so nothing overflows. A reset
inside a chunk cuts the pairs that straddle it and the state that entered before it.
"""

import importlib.util

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from precog.ops.reference import HeadState

# kernels are declared at import, before anything is compiled; a build of torch without CUDA does not pay for Triton
FUSED = torch.version.cuda is not None and importlib.util.find_spec("triton") is not None
if FUSED:
    from precog.ops.triton_outer import is_supported, triton_outer_scan

_FEW = 32  # tokens; no chunk is shorter


def outer_scan(
    log_decay: Float[Tensor, "B T H"],
    write: Float[Tensor, "B T H K"],
    value: Float[Tensor, "B T H P"],
    read: Float[Tensor, "B T H K"],
    initial: HeadState | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T H P"], HeadState]:
    """Readouts y_t = r_tᵀ H_t and the final state of H_t = a_t H_{t−1} + β_t v_tᵀ, by the fastest form there is.

    Args:
        log_decay: log a ≤ 0, FP32, one per head.
        write: β, already multiplied by Δ.
        value: v.
        read: r.
        initial: H before the first token; zero when None.
        resets: True where H_{t−1} counts as zero.

    Returns:
        Readouts in the dtype of ``value``; the final state in the dtype of ``log_decay``.
    """
    if FUSED and value.is_cuda and is_supported(write, value, read):
        return triton_outer_scan(log_decay, write, value, read, initial, resets)
    return chunked_outer_scan(log_decay, write, value, read, initial, resets)


def chunked_outer_scan(
    log_decay: Float[Tensor, "B T H"],
    write: Float[Tensor, "B T H K"],
    value: Float[Tensor, "B T H P"],
    read: Float[Tensor, "B T H K"],
    initial: HeadState | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
    chunk_length: int = 64,
) -> tuple[Float[Tensor, "B T H P"], HeadState]:
    """``outer_scan`` in torch; ``chunk_length``, tokens per chunk, changes speed and rounding only.

    Few tokens are padded, too: products of small matrices sum in an order that depends on their size, and a text would
    be read otherwise alone than beside a longer one.
    """
    rows, length, heads, coefficients = write.shape
    channels = value.shape[-1]
    size = chunk_length if length > _FEW else min(chunk_length, _FEW)
    count = -(-length // size)
    padding = count * size - length
    if padding:  # a padded token neither decays nor writes
        log_decay = functional.pad(log_decay, (0, 0, 0, padding))
        write, value, read = (functional.pad(x, (0, 0, 0, 0, 0, padding)) for x in (write, value, read))
        if resets is not None:
            resets = functional.pad(resets, (0, padding))

    def split(x: Tensor) -> Tensor:
        return x.reshape(rows, count, size, *x.shape[2:])

    total = split(log_decay).cumsum(2).permute(0, 1, 3, 2)  # B n H c: log decay from the chunk's start through t
    between = total[..., :, None] - total[..., None, :]
    visible = torch.ones(size, size, dtype=torch.bool, device=value.device).tril()[None, None, None]
    enters = None  # which tokens still see the state that entered the chunk
    if resets is not None:
        generation = split(resets).cumsum(2)
        visible = visible & (generation[..., :, None] == generation[..., None, :])[:, :, None]
        enters = (generation == 0)[:, :, None]
    weights = between.masked_fill(~visible, -torch.inf).exp()
    w, v, r = (split(x).transpose(2, 3) for x in (write, value, read))  # B n H c ·
    scores = (r @ w.transpose(-1, -2)) * weights.to(value.dtype)
    readouts = scores @ v

    to_end = total[..., -1:] - total
    from_start = total.exp()
    keep = from_start[..., -1]
    if enters is not None:
        from_start = from_start * enters
        keep = keep * enters[..., -1]
        survives = (generation == generation[..., -1:])[:, :, None]
        to_end = to_end.masked_fill(~survives, -torch.inf)
    added = (w * to_end.exp()[..., None].to(w.dtype)).transpose(-1, -2) @ v
    state = log_decay.new_zeros(rows, heads, coefficients, channels) if initial is None else initial.to(log_decay.dtype)
    entering = []
    for n in range(count):
        entering.append(state)
        state = keep[:, n, :, None, None] * state + added[:, n]
    carried = (r * from_start[..., None].to(r.dtype)) @ torch.stack(entering, dim=1).to(r.dtype)
    readouts = (readouts + carried).transpose(2, 3).reshape(rows, count * size, heads, channels)
    return readouts[:, :length], state
