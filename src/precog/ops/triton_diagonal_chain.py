"""The selective diagonal recurrence with one program a tile: as many programs as the sequence has tiles.

A program reads its tile, composes the tile's map h ↦ P h + e, waits for the state that its neighbour publishes,
publishes P h + e, and only then computes what it writes. The reading of many tiles overlaps; one after another goes
only a multiply-add and a word through the L2 cache. See :mod:`precog.ops.triton_diagonal_kernels` for the equations.

A published word is its own flag: the slots start as NaNs with all bits set, which arithmetic never makes. Programs
start in the order of their numbers, and none waits for a later one.
"""

from typing import no_type_check

import triton
import triton.language as tl

from precog.ops.triton_diagonal_kernels import _decay, _load, _rows, _times

_UNWRITTEN = tl.constexpr(-1)


@triton.jit
@no_type_check
def _wait(pointer, M: tl.constexpr):
    """Both parts of a state, as soon as its neighbour has published them."""
    real = tl.load(pointer, volatile=True)
    imaginary = tl.load(pointer + M, volatile=True)
    while tl.max(((real == _UNWRITTEN) | (imaginary == _UNWRITTEN)).to(tl.int32)) > 0:
        real = tl.load(pointer, volatile=True)
        imaginary = tl.load(pointer + M, volatile=True)
    return real.to(tl.float32, bitcast=True), imaginary.to(tl.float32, bitcast=True)


@triton.jit
@no_type_check
def _publish(pointer, real, imaginary, mask, M: tl.constexpr):
    tl.store(pointer, real.to(tl.int32, bitcast=True), mask=mask, cache_modifier=".cg")
    tl.store(pointer + M, imaginary.to(tl.int32, bitcast=True), mask=mask, cache_modifier=".cg")


@triton.jit
@no_type_check
def _once_more(v, beta, wide, here, M: tl.constexpr, EVEN: tl.constexpr):
    """Reads v and β from the first-level cache: registers hold one token at a time, so that more programs fit."""
    return (
        _load(v + wide, here, EVEN).to(tl.float32),
        _load(v + wide + M, here, EVEN).to(tl.float32),
        _load(beta + wide, here, EVEN).to(tl.float32),
        _load(beta + wide + M, here, EVEN).to(tl.float32),
    )


@triton.jit
@no_type_check
def _both(pr, pi, hr, hi, er, ei, fr, fi, qr, qi, kr, ki, sr, si, gr, gi):
    """Maps with and without their last chunk."""
    return (
        pr * qr - pi * qi, pr * qi + pi * qr, qr * hr - qi * hi + kr, qr * hi + qi * hr + ki,
        pr * sr - pi * si, pr * si + pi * sr, sr * hr - si * hi + gr, sr * hi + si * hr + gi,
    )  # fmt: skip


@triton.jit
@no_type_check
def _both_real(p, hr, hi, e, fr, fi, q, kr, ki, s, gr, gi):
    return p * q, q * hr + kr, q * hi + ki, p * s, s * hr + gr, s * hi + gi


@triton.jit
@no_type_check
def _scan_maps(pr, pi, hr, hi, BM: tl.constexpr, C: tl.constexpr, COMPLEX: tl.constexpr, REVERSE: tl.constexpr):
    """The maps of all chunks before each one (after it, if reversed), with it and without it."""
    one = tl.full((BM, C), 1.0, tl.float32)
    zero = tl.zeros((BM, C), tl.float32)
    if COMPLEX:
        return tl.associative_scan((pr, pi, hr, hi, one, zero, zero, zero), 1, _both, reverse=REVERSE)
    else:
        pr, hr, hi, er, fr, fi = tl.associative_scan((pr, hr, hi, one, zero, zero), 1, _both_real, reverse=REVERSE)
        return pr, pr, hr, hi, er, er, fr, fi


@triton.jit(do_not_specialize=["length", "rows"])
@no_type_check
def forward_chain(
    v, beta, dt, real, omega, initial, resets, states, final, entering, chain, length, rows,
    M: tl.constexpr, MPG: tl.constexpr, BM: tl.constexpr, C: tl.constexpr, L: tl.constexpr, SAVE: tl.constexpr,
    COMPLEX: tl.constexpr, INITIAL: tl.constexpr, RESETS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """One tile of BM modes of one row; ``chain`` [rows, tiles, N] takes the state that leaves it."""
    N: tl.constexpr = 2 * M
    G: tl.constexpr = M // MPG
    TOKENS: tl.constexpr = C * L
    blocks: tl.constexpr = (M + BM - 1) // BM
    tile = tl.program_id(0) // (rows * blocks)
    row = ((tl.program_id(0) // blocks) % rows).to(tl.int64)
    m = (tl.program_id(0) % blocks) * BM + tl.arange(0, BM)[:, None]
    chunk = tl.arange(0, C)[None, :]
    known = m < M
    tiles = tl.maximum(tl.cdiv(length, TOKENS), 1)
    start = row * length + tile * TOKENS
    left = length - tile * TOKENS - chunk * L
    wide = start * N + chunk * L * N + m
    tokens = _rows(
        v, beta, dt, v, start, left, chunk * L * N + m, chunk * L * G + m // MPG, known, M, G, L, EVEN, False
    )
    rate = tl.load(real + m, mask=known, other=0.0)
    speed = rate
    if COMPLEX:
        speed = tl.load(omega + m, mask=known, other=0.0)
    ar, ai, ur, ui = (), (), (), ()
    hr = tl.zeros((BM, C), tl.float32)
    hi = tl.zeros((BM, C), tl.float32)
    pr = tl.full((BM, C), 1.0, tl.float32)
    pi = tl.zeros((BM, C), tl.float32)
    for l in tl.static_range(L):
        step = tokens[5 * l]
        xr, xi = _decay(step, rate, speed, COMPLEX)
        if RESETS:
            reset = _load(resets + start + chunk * L + l, left > l, EVEN)
            xr = tl.where(reset != 0, 0.0, xr)
            xi = tl.where(reset != 0, 0.0, xi)
        yr = step * (tokens[5 * l + 3].to(tl.float32) * tokens[5 * l + 1].to(tl.float32))
        yi = step * (tokens[5 * l + 4].to(tl.float32) * tokens[5 * l + 2].to(tl.float32))
        hr, hi = _times(xr, xi, hr, hi, COMPLEX)
        hr += yr
        hi += yi
        pr, pi = _times(xr, xi, pr, pi, COMPLEX)
        ar, ai, ur, ui = ar + (xr,), ai + (xi,), ur + (yr,), ui + (yi,)
    pr, pi, hr, hi, er, ei, fr, fi = _scan_maps(pr, pi, hr, hi, BM, C, COMPLEX, False)
    carry_r = tl.zeros((BM, 1), tl.float32)
    carry_i = tl.zeros((BM, 1), tl.float32)
    place = (row * tiles + tile) * N + tl.minimum(m, M - 1)
    if tile > 0:
        carry_r, carry_i = _wait(chain + place - N, M)
    elif INITIAL:
        carry_r = tl.load(initial + row * N + m, mask=known, other=0.0)
        carry_i = tl.load(initial + row * N + M + m, mask=known, other=0.0)
    out_r, out_i = _times(pr, pi, carry_r, carry_i, COMPLEX)
    out_r += hr
    out_i += hi
    last = known & (chunk == C - 1)
    if tile + 1 < tiles:
        _publish(chain + place + chunk * 0, out_r, out_i, last, M)
    else:
        tl.store(final + row * N + m + chunk * 0, out_r, mask=last)
        tl.store(final + row * N + M + m + chunk * 0, out_i, mask=last)
    hr, hi = _times(er, ei, carry_r, carry_i, COMPLEX)
    hr += fr
    hi += fi
    token = tile * TOKENS + chunk * L
    saved = known & (token < length) & (token % SAVE == 0)
    slot = (row * tl.cdiv(length, SAVE) + token // SAVE) * N + m
    tl.store(entering + slot, hr, mask=saved)
    tl.store(entering + slot + M, hi, mask=saved)
    for l in tl.static_range(L):
        hr, hi = _times(ar[l], ai[l], hr, hi, COMPLEX)
        hr += ur[l]
        hi += ui[l]
        if EVEN:
            tl.store(states + wide + l * N, hr)
            tl.store(states + wide + l * N + M, hi)
        else:
            here = (left > l) & known
            tl.store(states + wide + l * N, hr, mask=here)
            tl.store(states + wide + l * N + M, hi, mask=here)


@triton.jit(do_not_specialize=["length", "rows"])
@no_type_check
def backward_chain(
    v, beta, dt, real, omega, resets, entering, d_states, d_final,
    d_v, d_beta, d_dt, d_real, d_omega, d_initial, chain, length, rows,
    M: tl.constexpr, MPG: tl.constexpr, BM: tl.constexpr, C: tl.constexpr, L: tl.constexpr,
    COMPLEX: tl.constexpr, RESETS: tl.constexpr, EVEN: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """One tile of BM modes of one row; ``chain`` takes the gradient that leaves it for the tile before."""
    N: tl.constexpr = 2 * M
    G: tl.constexpr = M // MPG
    TOKENS: tl.constexpr = C * L
    blocks: tl.constexpr = (M + BM - 1) // BM
    tiles = tl.maximum(tl.cdiv(length, TOKENS), 1)
    tile = tiles - 1 - tl.program_id(0) // (rows * blocks)
    row = ((tl.program_id(0) // blocks) % rows).to(tl.int64)
    m = (tl.program_id(0) % blocks) * BM + tl.arange(0, BM)[:, None]
    chunk = tl.arange(0, C)[None, :]
    known = m < M
    start = row * length + tile * TOKENS
    left = length - tile * TOKENS - chunk * L
    wide = start * N + chunk * L * N + m
    tokens = _rows(
        v, beta, dt, d_states, start, left, chunk * L * N + m, chunk * L * G + m // MPG, known, M, G, L, EVEN, True
    )
    rate = tl.load(real + m, mask=known, other=0.0)
    speed = rate
    if COMPLEX:
        speed = tl.load(omega + m, mask=known, other=0.0)
    place = (row * tiles + tile) * N + tl.minimum(m, M - 1)
    filled = known & (length > 0)
    start_r = tl.load(entering + place, mask=filled, other=0.0)
    start_i = tl.load(entering + place + M, mask=filled, other=0.0)
    ar, ai, ur, ui = (), (), (), ()
    hr = tl.zeros((BM, C), tl.float32)
    hi = tl.zeros((BM, C), tl.float32)
    pr = tl.full((BM, C), 1.0, tl.float32)
    pi = tl.zeros((BM, C), tl.float32)
    for l in tl.static_range(L):
        step = tokens[7 * l]
        xr, xi = _decay(step, rate, speed, COMPLEX)
        if RESETS:
            reset = _load(resets + start + chunk * L + l, left > l, EVEN)
            xr = tl.where(reset != 0, 0.0, xr)
            xi = tl.where(reset != 0, 0.0, xi)
        yr = step * (tokens[7 * l + 3].to(tl.float32) * tokens[7 * l + 1].to(tl.float32))
        yi = step * (tokens[7 * l + 4].to(tl.float32) * tokens[7 * l + 2].to(tl.float32))
        hr, hi = _times(xr, xi, hr, hi, COMPLEX)
        hr += yr
        hi += yi
        pr, pi = _times(xr, xi, pr, pi, COMPLEX)
        ar, ai, ur, ui = ar + (xr,), ai + (xi,), ur + (yr,), ui + (yi,)
    cr = tl.zeros((BM, C), tl.float32)
    ci = tl.zeros((BM, C), tl.float32)
    for l in tl.static_range(L - 1, -1, -1):
        cr, ci = _times(
            ar[l], -ai[l], cr + tokens[7 * l + 5].to(tl.float32), ci + tokens[7 * l + 6].to(tl.float32), COMPLEX
        )
    qr, qi, cr, ci, sr, si, er, ei = _scan_maps(pr, -pi, cr, ci, BM, C, COMPLEX, True)
    _, _, _, _, pr, pi, hr, hi = _scan_maps(pr, pi, hr, hi, BM, C, COMPLEX, False)
    out_r, out_i = _times(pr, pi, start_r, start_i, COMPLEX)
    hr += out_r
    hi += out_i
    if tile + 1 < tiles:
        carry_r, carry_i = _wait(chain + place + N, M)
    else:
        carry_r = tl.load(d_final + row * N + m, mask=known, other=0.0)
        carry_i = tl.load(d_final + row * N + M + m, mask=known, other=0.0)
    out_r, out_i = _times(qr, qi, carry_r, carry_i, COMPLEX)
    out_r += cr
    out_i += ci
    first = known & (chunk == 0)
    if tile > 0:
        _publish(chain + place + chunk * 0, out_r, out_i, first, M)
    else:
        tl.store(d_initial + row * N + m + chunk * 0, out_r, mask=first)
        tl.store(d_initial + row * N + M + m + chunk * 0, out_i, mask=first)
    cr, ci = _times(sr, si, carry_r, carry_i, COMPLEX)
    cr += er
    ci += ei
    krs, kis = (), ()  # a_t h_{t−1}
    for l in tl.static_range(L):
        kr, ki = _times(ar[l], ai[l], hr, hi, COMPLEX)
        krs, kis = krs + (kr,), kis + (ki,)
        if AGAIN:
            vr, vi, br, bi = _once_more(v, beta, wide + l * N, (left > l) & known, M, EVEN)
            step = _load(dt + start * G + chunk * L * G + m // MPG + l * G, (left > l) & known, EVEN)
            hr = kr + step * (br * vr)
            hi = ki + step * (bi * vi)
        else:
            hr = kr + ur[l]
            hi = ki + ui[l]
    sum_r = tl.zeros((BM, C), tl.float32)
    sum_i = tl.zeros((BM, C), tl.float32)
    group = (tl.program_id(0) % blocks) * (BM // MPG) + tl.arange(0, BM // MPG)[:, None]
    steps = d_dt + start * G + chunk * L * G + group
    for l in tl.static_range(L - 1, -1, -1):
        here = (left > l) & known
        if AGAIN:
            gr = cr + _load(d_states + wide + l * N, here, EVEN).to(tl.float32)
            gi = ci + _load(d_states + wide + l * N + M, here, EVEN).to(tl.float32)
            step = _load(dt + start * G + chunk * L * G + m // MPG + l * G, here, EVEN)
            vr, vi, br, bi = _once_more(v, beta, wide + l * N, here, M, EVEN)
        else:
            gr = cr + tokens[7 * l + 5].to(tl.float32)
            gi = ci + tokens[7 * l + 6].to(tl.float32)
            step = tokens[7 * l]
            vr = tokens[7 * l + 1].to(tl.float32)
            vi = tokens[7 * l + 2].to(tl.float32)
            br = tokens[7 * l + 3].to(tl.float32)
            bi = tokens[7 * l + 4].to(tl.float32)
        cr, ci = _times(ar[l], -ai[l], gr, gi, COMPLEX)
        zr = gr * krs[l] + gi * kis[l]
        slope = zr * rate + gr * (br * vr) + gi * (bi * vi)
        sum_r += step * zr
        if COMPLEX:
            zi = gr * kis[l] - gi * krs[l]
            slope -= zi * speed
            sum_i -= step * zi
        gr *= step
        gi *= step
        if MPG > 1:
            slope = tl.sum(tl.reshape(slope, (BM // MPG, MPG, C)), axis=1)
        if EVEN:
            tl.store(d_v + wide + l * N, gr * br)
            tl.store(d_v + wide + l * N + M, gi * bi)
            tl.store(d_beta + wide + l * N, gr * vr)
            tl.store(d_beta + wide + l * N + M, gi * vi)
        else:
            tl.store(d_v + wide + l * N, gr * br, mask=here)
            tl.store(d_v + wide + l * N + M, gi * bi, mask=here)
            tl.store(d_beta + wide + l * N, gr * vr, mask=here)
            tl.store(d_beta + wide + l * N + M, gi * vi, mask=here)
        if EVEN:
            tl.store(steps + l * G, slope)
        else:
            tl.store(steps + l * G, slope, mask=(left > l) & (group < G))
    mode = (tl.program_id(0) % blocks) * BM + tl.arange(0, BM)
    partial = (row * tiles + tile) * M + mode
    tl.store(d_real + partial, tl.sum(sum_r, axis=1), mask=mode < M)
    if COMPLEX:
        tl.store(d_omega + partial, tl.sum(sum_i, axis=1), mask=mode < M)
