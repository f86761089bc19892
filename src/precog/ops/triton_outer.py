"""Outer-product recurrence in one kernel a direction: no chunk matrix and no state leaves the chip.

One program walks the chunks of one head of one row with the state in registers. Within a chunk of c tokens, with
L_t the log decay from the chunk's start through t and S the state that enters,

    A_ts = (r_t · w_s) exp(L_t − L_s)  (s ≤ t)      y_t = Σ_s A_ts v_s + exp(L_t) r_tᵀ S
    S'   = exp(L_c) S + Σ_s exp(L_c − L_s) w_s v_sᵀ

A reset inside the chunk cuts the pairs that straddle it and the state that entered before it. The backward pass walks
the chunks from the last to the first with the gradient of the state, and makes A anew from what was saved: the inputs
and S at each chunk's start. Products take the inputs' dtype and add up in FP32; FP32 inputs are multiplied as FP32.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float
from torch import Tensor

from precog.ops.launching import on_own_device
from precog.ops.reference import HeadState
from precog.ops.traced import is_traced

DTYPES = (torch.bfloat16, torch.float32)
MAX_STATE = 128 * 64  # reals of one head's state that fit in a program's registers


@triton.jit
@no_type_check
def _decays(log_decay, resets, start, here, heads: tl.constexpr, C: tl.constexpr, HAS_RESETS: tl.constexpr):
    """Pair weights [C, C], decay from the start through t, from t to the end, and through the whole chunk."""
    t = tl.arange(0, C)
    decay = tl.load(log_decay + t * heads, mask=here, other=0.0).to(tl.float32)
    total = tl.cumsum(decay, 0)
    end = tl.sum(decay, 0)
    visible = t[:, None] >= t[None, :]
    from_start = tl.exp(total)
    to_end = tl.exp(end - total)
    keep = tl.exp(end)
    if HAS_RESETS:
        reset = tl.load(resets + start + t, mask=here, other=0).to(tl.int32)
        generation = tl.cumsum(reset, 0)
        last = tl.sum(reset, 0)
        visible = visible & (generation[:, None] == generation[None, :])
        from_start = tl.where(generation == 0, from_start, 0.0)
        to_end = tl.where(generation == last, to_end, 0.0)
        keep = tl.where(last == 0, keep, 0.0)
    weights = tl.exp(tl.where(visible, total[:, None] - total[None, :], float("-inf")))
    return weights, from_start, to_end, keep


@triton.jit
@no_type_check
def _outer_forward_kernel(
    log_decay,
    write,
    value,
    read,
    initial,
    resets,
    readouts,
    final,
    entering,
    length,
    chunks,
    heads: tl.constexpr,
    coefficients: tl.constexpr,
    channels: tl.constexpr,
    C: tl.constexpr,
    K: tl.constexpr,
    P: tl.constexpr,
    HAS_INITIAL: tl.constexpr,
    HAS_RESETS: tl.constexpr,
    SAVE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    row = program // heads
    head = program % heads
    t = tl.arange(0, C)
    k = tl.arange(0, K)
    p = tl.arange(0, P)
    in_k = k < coefficients
    in_p = p < channels
    cell = k[:, None] * channels + p[None, :]
    in_cell = in_k[:, None] & in_p[None, :]
    reals = coefficients * channels
    at_k = (t * heads * coefficients)[:, None] + k[None, :]
    at_p = (t * heads * channels)[:, None] + p[None, :]
    state = tl.zeros((K, P), tl.float32)
    if HAS_INITIAL:
        state = tl.load(initial + program * reals + cell, mask=in_cell, other=0.0).to(tl.float32)
    for n in range(chunks):
        here = n * C + t < length
        start = row * length + n * C
        place = start * heads + head  # of the chunk's first token; the tokens' offsets from it fit in 32 bits
        to_k = place * coefficients
        to_p = place * channels
        weights, from_start, to_end, keep = _decays(log_decay + place, resets, start, here, heads, C, HAS_RESETS)
        here_k = here[:, None] & in_k[None, :]
        here_p = here[:, None] & in_p[None, :]
        w = tl.load(write + to_k + at_k, mask=here_k, other=0.0)
        r = tl.load(read + to_k + at_k, mask=here_k, other=0.0)
        v = tl.load(value + to_p + at_p, mask=here_p, other=0.0)
        entered = state.to(v.dtype)
        if SAVE:
            tl.store(entering + (program * chunks + n) * reals + cell, entered, mask=in_cell)
        scores = tl.dot(r, tl.trans(w), input_precision=PRECISION) * weights
        y = tl.dot(r, entered, input_precision=PRECISION) * from_start[:, None]
        y += tl.dot(scores.to(v.dtype), v, input_precision=PRECISION)
        tl.store(readouts + to_p + at_p, y.to(v.dtype), mask=here_p)
        faded = (w * to_end[:, None]).to(v.dtype)
        state = state * keep + tl.dot(tl.trans(faded), v, input_precision=PRECISION)
    tl.store(final + program * reals + cell, state, mask=in_cell)


@triton.jit
@no_type_check
def _outer_backward_kernel(
    log_decay,
    write,
    value,
    read,
    resets,
    entering,
    d_readouts,
    d_final,
    d_log_decay,
    d_write,
    d_value,
    d_read,
    d_initial,
    length,
    chunks,
    heads: tl.constexpr,
    coefficients: tl.constexpr,
    channels: tl.constexpr,
    C: tl.constexpr,
    K: tl.constexpr,
    P: tl.constexpr,
    HAS_INITIAL: tl.constexpr,
    HAS_RESETS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    row = program // heads
    head = program % heads
    t = tl.arange(0, C)
    k = tl.arange(0, K)
    p = tl.arange(0, P)
    in_k = k < coefficients
    in_p = p < channels
    cell = k[:, None] * channels + p[None, :]
    in_cell = in_k[:, None] & in_p[None, :]
    reals = coefficients * channels
    at_k = (t * heads * coefficients)[:, None] + k[None, :]
    at_p = (t * heads * channels)[:, None] + p[None, :]
    d_state = tl.load(d_final + program * reals + cell, mask=in_cell, other=0.0)
    for i in range(chunks):
        n = chunks - 1 - i
        here = n * C + t < length
        start = row * length + n * C
        place = start * heads + head  # of the chunk's first token; the tokens' offsets from it fit in 32 bits
        to_k = place * coefficients
        to_p = place * channels
        weights, from_start, to_end, keep = _decays(log_decay + place, resets, start, here, heads, C, HAS_RESETS)
        here_k = here[:, None] & in_k[None, :]
        here_p = here[:, None] & in_p[None, :]
        w = tl.load(write + to_k + at_k, mask=here_k, other=0.0)
        r = tl.load(read + to_k + at_k, mask=here_k, other=0.0)
        v = tl.load(value + to_p + at_p, mask=here_p, other=0.0)
        dy = tl.load(d_readouts + to_p + at_p, mask=here_p, other=0.0)
        entered = tl.load(entering + (program * chunks + n) * reals + cell, mask=in_cell, other=0.0)
        d_left = d_state.to(v.dtype)

        scores = tl.dot(r, tl.trans(w), input_precision=PRECISION)
        d_scores = tl.dot(dy, tl.trans(v), input_precision=PRECISION) * weights
        pairs = tl.where(t[:, None] > t[None, :], d_scores * scores, 0.0)
        scores = (scores * weights).to(v.dtype)
        d_scores = d_scores.to(v.dtype)

        d_value_here = tl.dot(w, d_left, input_precision=PRECISION) * to_end[:, None]
        d_value_here += tl.dot(tl.trans(scores), dy, input_precision=PRECISION)
        tl.store(d_value + to_p + at_p, d_value_here.to(v.dtype), mask=here_p)

        carried = tl.dot(dy, tl.trans(entered), input_precision=PRECISION) * from_start[:, None]
        # L_t raises what t reads: of the state that entered, and of every earlier token
        raised = tl.sum(carried * r.to(tl.float32), 1) + tl.sum(pairs, 1)
        carried += tl.dot(d_scores, w, input_precision=PRECISION)
        tl.store(d_read + to_k + at_k, carried.to(v.dtype), mask=here_k)

        left = tl.dot(v, tl.trans(d_left), input_precision=PRECISION) * to_end[:, None]
        remembered = tl.sum(left * w.to(tl.float32), 1)
        left += tl.dot(tl.trans(d_scores), r, input_precision=PRECISION)
        tl.store(d_write + to_k + at_k, left.to(v.dtype), mask=here_k)

        # token u's decay is in L_t for t ≥ u, and between s and the end of the chunk for s < u
        through = tl.cumsum(raised - tl.sum(pairs, 0), 0, reverse=True)
        through += tl.cumsum(remembered, 0) - remembered
        through += keep * tl.sum(tl.sum(entered.to(tl.float32) * d_state, 1), 0)
        tl.store(d_log_decay + place + t * heads, through, mask=here)

        faded = (r * from_start[:, None]).to(v.dtype)
        d_state = d_state * keep + tl.dot(tl.trans(faded), dy, input_precision=PRECISION)
    if HAS_INITIAL:
        tl.store(d_initial + program * reals + cell, d_state, mask=in_cell)


def _tile(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))  # a matrix product needs sides of at least 16


def _constants(write: Tensor, value: Tensor, chunk_length: int) -> dict[str, Any]:
    coefficients, channels = write.shape[3], value.shape[3]
    tiles = {"C": chunk_length, "K": _tile(coefficients), "P": _tile(channels)}
    return {
        "heads": write.shape[2],
        "coefficients": coefficients,
        "channels": channels,
        **tiles,
        "PRECISION": "ieee" if write.dtype == torch.float32 else "tf32",  # of no effect on BF16
        "num_warps": 4 if tiles["K"] * tiles["P"] <= 4096 else 8,
        "num_stages": 1,  # chunks depend on one another; there is nothing to fetch ahead without more shared memory
    }


def _bytes(resets: Tensor | None) -> Tensor | None:
    return None if resets is None else resets.contiguous().view(torch.uint8)


@on_own_device
def _forward(
    log_decay: Tensor,
    write: Tensor,
    value: Tensor,
    read: Tensor,
    initial: Tensor | None,
    resets: Tensor | None,
    chunk_length: int,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    log_decay, write, value, read = (x.contiguous() for x in (log_decay, write, value, read))
    initial = None if initial is None else initial.contiguous()
    rows, length, heads, coefficients = write.shape
    channels = value.shape[3]
    chunks = triton.cdiv(length, chunk_length)
    readouts = torch.empty_like(value)
    final = write.new_empty(rows, heads, coefficients, channels, dtype=torch.float32)
    entering = value.new_empty(rows * heads if save else 0, chunks, coefficients, channels)
    if rows:
        _outer_forward_kernel[(rows * heads,)](
            log_decay,
            write,
            value,
            read,
            initial,
            _bytes(resets),
            readouts,
            final,
            entering,
            length,
            chunks,
            HAS_INITIAL=initial is not None,
            HAS_RESETS=resets is not None,
            SAVE=save,
            **_constants(write, value, chunk_length),
        )
    return readouts, final, entering


_scan = torch.library.custom_op("precog::outer_scan", _forward, mutates_args=())


@_scan.register_fake
def _(
    log_decay: Tensor,
    write: Tensor,
    value: Tensor,
    read: Tensor,
    initial: Tensor | None,
    resets: Tensor | None,
    chunk_length: int,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    rows, length, heads, coefficients = write.shape
    channels = value.shape[3]
    chunks = -(-length // chunk_length)
    readouts = value.new_empty(value.shape)
    final = write.new_empty(rows, heads, coefficients, channels, dtype=torch.float32)
    return readouts, final, value.new_empty(rows * heads if save else 0, chunks, coefficients, channels)


@torch.library.custom_op("precog::outer_scan_backward", mutates_args=())
def _scan_backward(
    log_decay: Tensor,
    write: Tensor,
    value: Tensor,
    read: Tensor,
    initial: Tensor | None,
    resets: Tensor | None,
    entering: Tensor,
    d_readouts: Tensor,
    d_final: Tensor,
    chunk_length: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    log_decay, write, value, read = (x.contiguous() for x in (log_decay, write, value, read))
    d_log_decay = torch.empty_like(log_decay)
    d_write, d_value, d_read = (torch.empty_like(x) for x in (write, value, read))
    rows, length, heads, coefficients = write.shape
    channels = value.shape[3]
    d_initial = write.new_empty(rows if initial is not None else 0, heads, coefficients, channels, dtype=torch.float32)
    if rows:
        _outer_backward_kernel[(rows * heads,)](
            log_decay,
            write,
            value,
            read,
            _bytes(resets),
            entering,
            d_readouts.contiguous(),
            d_final.contiguous(),
            d_log_decay,
            d_write,
            d_value,
            d_read,
            d_initial,
            length,
            triton.cdiv(length, chunk_length),
            HAS_INITIAL=initial is not None,
            HAS_RESETS=resets is not None,
            **_constants(write, value, chunk_length),
        )
    return d_log_decay, d_write, d_value, d_read, d_initial


@_scan_backward.register_fake
def _(
    log_decay: Tensor,
    write: Tensor,
    value: Tensor,
    read: Tensor,
    initial: Tensor | None,
    resets: Tensor | None,
    entering: Tensor,
    d_readouts: Tensor,
    d_final: Tensor,
    chunk_length: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows, _, heads, coefficients = write.shape
    d_initial = write.new_empty(
        rows if initial is not None else 0, heads, coefficients, value.shape[3], dtype=torch.float32
    )
    d_log_decay, d_write, d_value, d_read = (x.new_empty(x.shape) for x in (log_decay, write, value, read))
    return d_log_decay, d_write, d_value, d_read, d_initial


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    log_decay, write, value, read, initial, resets, ctx.chunk_length, saved = inputs
    if not saved:
        raise RuntimeError("a scan that saved nothing has no gradient")
    ctx.save_for_backward(log_decay, write, value, read, initial, resets, output[2])


def _differentiate(ctx: Any, d_readouts: Tensor, d_final: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    log_decay, write, value, read, initial, resets, entering = ctx.saved_tensors
    d_log_decay, d_write, d_value, d_read, d_initial = _scan_backward(
        log_decay, write, value, read, initial, resets, entering, d_readouts, d_final, ctx.chunk_length
    )
    return d_log_decay, d_write, d_value, d_read, None if initial is None else d_initial, None, None, None


_scan.register_autograd(_differentiate, setup_context=_save)


def is_supported(write: Tensor, value: Tensor, read: Tensor) -> bool:
    """Whether the kernels know these dtypes and sizes; the device is not looked at."""
    same = write.dtype == value.dtype == read.dtype
    return same and value.dtype in DTYPES and _tile(write.shape[3]) * _tile(value.shape[3]) <= MAX_STATE


def triton_outer_scan(
    log_decay: Float[Tensor, "B T H"],
    write: Float[Tensor, "B T H K"],
    value: Float[Tensor, "B T H P"],
    read: Float[Tensor, "B T H K"],
    initial: HeadState | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
    chunk_length: int | None = None,
) -> tuple[Float[Tensor, "B T H P"], HeadState]:
    """What ``outer_scan`` computes, by the kernels of this file; ``is_supported`` says for what.

    Args:
        log_decay: log a ≤ 0, FP32, one per head.
        write: β, already multiplied by Δ; BF16 or FP32.
        value: v, in the dtype of ``write``.
        read: r, in the dtype of ``write``.
        initial: H before the first token; zero when None.
        resets: True where H_{t−1} counts as zero.
        chunk_length: tokens per chunk, a power of two from 16 up; changes speed and rounding only.

    Returns:
        Readouts in the dtype of ``value``; the final state in FP32.
    """
    length = write.shape[1]
    size = chunk_length or (16 if length <= 16 or value.dtype == torch.float32 else 32)
    if initial is not None:
        initial = initial.float()
    save = torch.is_grad_enabled()
    scan = _scan if is_traced() else _forward
    readouts, final, _ = scan(log_decay.float(), write, value, read, initial, resets, size, save)
    return readouts, final
