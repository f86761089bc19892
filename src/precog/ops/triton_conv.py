"""Segment-local convolution, bias and SiLU in one kernel a direction: inputs are read once, outputs written once.

Forward, a program takes a tile of tokens and channels; its taps are the same tile read a token earlier, from cache.
Backward, a program walks a span of one row's tokens with the last inputs and the last gradients in registers,

    z_t = b + Σ_j w_j v_{t−j}      dz_t = dout_t · SiLU′(z_t)      dv_t = Σ_j w_j dz_{t+j}      dw_j = Σ_t dz_t v_{t−j}

all within segments, and reads kernel − 1 tokens beyond its span. Sums over tokens are made in two stages of a fixed
order, so that gradients are the same on every run. Arithmetic is FP32 whatever the inputs are.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from precog.ops.launching import on_own_device
from precog.ops.traced import is_traced

DTYPES = (torch.bfloat16, torch.float32)
MAX_TAPS = 8  # as many inputs and gradients as a program keeps in registers
TOKENS, CHANNELS, WARPS = 16, 128, 4  # tile of a program of the forward pass
SPAN, SPAN_CHANNELS, SPAN_WARPS = 64, 128, 1  # tokens that a program of the backward pass walks, in how wide a strip
MAX_GROUPS = 512  # programs per channel block of the backward pass, so terms of the second stage of sums


@triton.jit
@no_type_check
def _conv_forward_kernel(
    v,
    weight,
    bias,
    tail,
    segments,
    out,
    length,
    inner,
    blocks,
    v_row,
    v_token,
    TAPS: tl.constexpr,
    TOKENS: tl.constexpr,
    CHANNELS: tl.constexpr,
    HAS_TAIL: tl.constexpr,
    HAS_SEGMENTS: tl.constexpr,
):
    item = tl.program_id(0)
    row = (item // blocks).to(tl.int64)
    first = (item % blocks) * TOKENS
    t = tl.arange(0, TOKENS)
    n = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    in_n = n < inner
    here = first + t < length
    v += row * v_row + first.to(tl.int64) * v_token
    start = row * length + first
    total = tl.zeros((TOKENS, CHANNELS), tl.float32) + tl.load(bias + n, mask=in_n, other=0.0).to(tl.float32)[None, :]
    if HAS_SEGMENTS:
        label = tl.load(segments + start + t, mask=here, other=0)
    for j in tl.static_range(TAPS):
        inside = here & (first + t >= j)
        outside = here & (first + t < j)
        if HAS_SEGMENTS:
            inside = inside & (tl.load(segments + start + t - j, mask=inside, other=0) == label)
            outside = outside & (label == 0)
        x = tl.load(v + ((t - j) * v_token)[:, None] + n[None, :], mask=inside[:, None] & in_n[None, :], other=0.0)
        x = x.to(tl.float32)
        if HAS_TAIL and j > 0:
            at = (row * (TAPS - 1) + TAPS - 1 + first + t - j) * inner
            x += tl.load(tail + at[:, None] + n[None, :], mask=outside[:, None] & in_n[None, :], other=0.0)
        total += tl.load(weight + n * TAPS + j, mask=in_n, other=0.0).to(tl.float32)[None, :] * x
    result = total * tl.sigmoid(total)
    place = start * inner + (t * inner)[:, None] + n[None, :]
    tl.store(out + place, result.to(out.dtype.element_ty), mask=here[:, None] & in_n[None, :])


@triton.jit
@no_type_check
def _conv_backward_kernel(
    v,
    weight,
    bias,
    tail,
    segments,
    d_out,
    d_v,
    d_tail,
    sums,
    length,
    inner,
    blocks,
    items,
    span,
    v_row,
    v_token,
    TAPS: tl.constexpr,
    STEPS: tl.constexpr,
    CHANNELS: tl.constexpr,
    HAS_TAIL: tl.constexpr,
    HAS_SEGMENTS: tl.constexpr,
):
    REACH: tl.constexpr = TAPS - 1
    group = tl.program_id(0)
    n = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    in_n = n < inner
    b = tl.load(bias + n, mask=in_n, other=0.0).to(tl.float32)
    zero = tl.zeros((CHANNELS,), tl.float32)
    w = ()
    d_w = ()
    for j in tl.static_range(TAPS):
        w = w + (tl.load(weight + n * TAPS + j, mask=in_n, other=0.0).to(tl.float32),)
        d_w = d_w + (zero,)
    d_b = zero
    for item in range(group, items, tl.num_programs(0)):
        row = (item // blocks).to(tl.int64)
        first = (item % blocks) * span
        stop = tl.minimum(first + span, length)
        start = row * length
        # the last inputs and their segments, and the gradients of the last sums, oldest first
        xs = ()
        labels = ()
        d_zs = ()
        for j in tl.static_range(REACH):
            s = first - REACH + j
            at = v + row * v_row + s.to(tl.int64) * v_token + n
            x = tl.load(at, mask=in_n & (s >= 0), other=0.0).to(tl.float32)
            if HAS_TAIL:
                x += tl.load(tail + (row * REACH + REACH + s) * inner + n, mask=in_n & (s < 0), other=0.0)
            xs = xs + (x,)
            d_zs = d_zs + (zero,)
            if HAS_SEGMENTS:
                labels = labels + (tl.load(segments + start + s, mask=s >= 0, other=0).to(tl.int32),)
            else:
                labels = labels + (0,)
        for begin in range(first, stop + REACH, STEPS):
            new_xs = ()
            new_gs = ()
            new_labels = ()
            for i in tl.static_range(STEPS):  # all loads first, so that they are under way together
                t = begin + i
                inside = in_n & (t < length)
                x = tl.load(v + row * v_row + t.to(tl.int64) * v_token + n, mask=inside, other=0.0)
                g = tl.load(d_out + (start + t) * inner + n, mask=inside, other=0.0)
                new_xs = new_xs + (x,)
                new_gs = new_gs + (g,)
                if HAS_SEGMENTS:
                    new_labels = new_labels + (tl.load(segments + start + t, mask=t < length, other=-1).to(tl.int32),)
                else:
                    new_labels = new_labels + (0,)
            for i in tl.static_range(STEPS):
                t = begin + i
                xs = xs + (new_xs[i].to(tl.float32),)
                labels = labels + (new_labels[i],)
                z = b
                for j in tl.static_range(TAPS):
                    x = xs[REACH - j]
                    if HAS_SEGMENTS and j > 0:
                        x = tl.where(labels[REACH - j] == labels[REACH], x, 0.0)
                    z += w[j] * x
                gate = tl.sigmoid(z)
                d_z = new_gs[i].to(tl.float32) * gate * (1.0 + z * (1.0 - gate))
                d_zs = d_zs + (d_z,)
                own = tl.where(t < stop, d_z, 0.0)  # tokens beyond the span are another program's
                d_b += own
                added = ()
                for j in tl.static_range(TAPS):
                    x = xs[REACH - j]
                    if HAS_SEGMENTS and j > 0:
                        x = tl.where(labels[REACH - j] == labels[REACH], x, 0.0)
                    added = added + (d_w[j] + own * x,)
                d_w = added
                d_x = w[0] * d_zs[0]
                for j in tl.static_range(1, TAPS):
                    if HAS_SEGMENTS:
                        d_x += tl.where(labels[j] == labels[0], w[j] * d_zs[j], 0.0)
                    else:
                        d_x += w[j] * d_zs[j]
                p = t - REACH
                to = d_v + (start + p) * inner + n
                tl.store(to, d_x.to(d_v.dtype.element_ty), mask=in_n & (p >= first) & (p < stop))
                if HAS_TAIL:
                    to = d_tail + (row * REACH + REACH + p) * inner + n
                    tl.store(to, d_x.to(d_tail.dtype.element_ty), mask=in_n & (p < 0))
                xs = xs[1:]
                labels = labels[1:]
                d_zs = d_zs[1:]
    for j in tl.static_range(TAPS):
        tl.store(sums + (group * (TAPS + 1) + j) * inner + n, d_w[j], mask=in_n)
    tl.store(sums + (group * (TAPS + 1) + TAPS) * inner + n, d_b, mask=in_n)


def _channels_last(x: Tensor) -> Tensor:
    """Rows and tokens may have any stride, as one half of a wider matrix has; channels lie side by side."""
    return x if x.stride(2) == 1 else x.contiguous()


@on_own_device
def _forward(v: Tensor, weight: Tensor, bias: Tensor, tail: Tensor | None, segments: Tensor | None) -> Tensor:
    v = _channels_last(v)
    rows, length, inner = v.shape
    out = v.new_empty(rows, length, inner)
    blocks = triton.cdiv(length, TOKENS)
    if rows:
        _conv_forward_kernel[(rows * blocks, triton.cdiv(inner, CHANNELS))](
            v,
            weight.contiguous(),
            bias.contiguous(),
            None if tail is None else tail.contiguous(),
            None if segments is None else segments.contiguous(),
            out,
            length,
            inner,
            blocks,
            v.stride(0),
            v.stride(1),
            TAPS=weight.shape[1],
            TOKENS=TOKENS,
            CHANNELS=CHANNELS,
            HAS_TAIL=tail is not None,
            HAS_SEGMENTS=segments is not None,
            num_warps=WARPS,
        )
    return out


_conv = torch.library.custom_op("precog::segment_conv", _forward, mutates_args=())


@_conv.register_fake
def _(v: Tensor, weight: Tensor, bias: Tensor, tail: Tensor | None, segments: Tensor | None) -> Tensor:
    return v.new_empty(v.shape)


@torch.library.custom_op("precog::segment_conv_backward", mutates_args=())
def _conv_backward(
    v: Tensor, weight: Tensor, bias: Tensor, tail: Tensor | None, segments: Tensor | None, d_out: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    v = _channels_last(v)
    rows, length, inner = v.shape
    taps = weight.shape[1]
    d_v = v.new_empty(rows, length, inner)
    d_tail = v.new_empty(0) if tail is None else torch.empty_like(tail, memory_format=torch.contiguous_format)
    blocks = triton.cdiv(length, SPAN)
    groups = min(rows * blocks, MAX_GROUPS)
    sums = v.new_empty(groups, taps + 1, inner, dtype=torch.float32)
    if rows:
        _conv_backward_kernel[(groups, triton.cdiv(inner, SPAN_CHANNELS))](
            v,
            weight.contiguous(),
            bias.contiguous(),
            None if tail is None else tail.contiguous(),
            None if segments is None else segments.contiguous(),
            d_out.contiguous(),
            d_v,
            d_tail,
            sums,
            length,
            inner,
            blocks,
            rows * blocks,
            SPAN,
            v.stride(0),
            v.stride(1),
            TAPS=taps,
            STEPS=4,
            CHANNELS=SPAN_CHANNELS,
            HAS_TAIL=tail is not None,
            HAS_SEGMENTS=segments is not None,
            num_warps=SPAN_WARPS,
        )
    total = sums.sum(0)
    d_weight = weight.new_empty(weight.shape).copy_(total[:taps].t())
    return d_v, d_weight, bias.new_empty(bias.shape).copy_(total[taps]), d_tail


@_conv_backward.register_fake
def _(
    v: Tensor, weight: Tensor, bias: Tensor, tail: Tensor | None, segments: Tensor | None, d_out: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    d_tail = v.new_empty(0) if tail is None else tail.new_empty(tail.shape)
    return v.new_empty(v.shape), weight.new_empty(weight.shape), bias.new_empty(bias.shape), d_tail


def _save(ctx: Any, inputs: tuple[Tensor | None, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
    tail = ctx.saved_tensors[3]
    d_v, d_weight, d_bias, d_tail = _conv_backward(*ctx.saved_tensors, d_out)
    return d_v, d_weight, d_bias, None if tail is None else d_tail, None


_conv.register_autograd(_differentiate, setup_context=_save)


def is_supported(v: Tensor, weight: Tensor) -> bool:
    """Whether the kernels know this dtype and number of taps; the device is not looked at."""
    return v.dtype in DTYPES and weight.dtype in DTYPES and weight.shape[1] <= MAX_TAPS


def triton_segment_conv(
    v: Float[Tensor, "B T N"],
    weight: Float[Tensor, "N taps"],
    bias: Float[Tensor, " N"],
    tail: Float[Tensor, "B reach N"] | None = None,
    segments: Int[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B T N"]:
    """What ``segment_conv`` computes, by the kernels of this file; ``is_supported`` says for what.

    Args:
        v: inputs, BF16 or FP32.
        weight: taps, that of the token itself first; BF16 or FP32.
        bias: in the dtype of ``weight``.
        tail: the last kernel − 1 inputs before the first token, oldest first; zeros when None.
        segments: number of boundary tokens up to and including each token; None lets the window cross them.
    """
    result: Tensor = (_conv if is_traced() else _forward)(
        v, weight, bias, tail if weight.shape[1] > 1 else None, segments
    )
    return result
