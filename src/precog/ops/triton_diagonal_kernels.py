"""The selective diagonal recurrence in one kernel a direction: memory is read once and written once.

One program owns BM modes of one row and walks through time in tiles of C chunks of L tokens. A thread holds L tokens
of the same modes in registers, so that the recurrence within a chunk is a plain loop and only C composed maps
h ↦ P h + e per tile meet in a scan. Then every chunk knows the state that enters it and runs once more, exactly.

The backward pass walks from the last tile to the first with c_t = conj(a_{t+1}) g_{t+1}, g_t = dh_t + c_t:

    w_m = β_m v_m + i β_{M+m} v_{M+m}           Z = conj(g_t) a_t h_{t−1}
    dv = Δ β ⊙ g,  dβ = Δ v ⊙ g                 dΔ = Σ_m Re(Z λ) + Re(conj(g_t) w)
    d Re λ = Σ_t Δ Re Z                         d Im λ = −Σ_t Δ Im Z

States are computed again from the one that entered each tile, which the forward pass saves in FP32: this costs
1 / tile of the bytes. Reading the BF16 states back would cost more bytes and put an error of 2⁻⁹ into every Z.

Nothing is added atomically: the same inputs give the same bits.
"""

from typing import no_type_check

import triton
import triton.language as tl

# minimax on |x| ≤ π/2: sin x = x + x³ S(x²) to 5e-9, cos x = 1 + x² C(x²) to 3e-10
_S0, _S1, _S2, _S3 = (
    tl.constexpr(value) for value in (-1.66666571e-01, 8.33301636e-03, -1.98065471e-04, 2.59990328e-06)
)
_C0, _C1, _C2, _C3, _C4 = (
    tl.constexpr(value) for value in (-4.99999995e-01, 4.16666406e-02, -1.38884021e-03, 2.47618082e-05, -2.60756628e-07)
)
_ROUND = tl.constexpr(12582912.0)  # 1.5 · 2²³: adding it leaves the nearest integer in the last bits
_INVERSE_PI = tl.constexpr(0.3183098861837907)
_PI_HIGH, _PI_MIDDLE, _PI_LOW = (  # π in three parts; multiples of the first two are exact
    tl.constexpr(value) for value in (3.140625, 9.67502593994140625e-4, 1.509957990978376432e-7)
)


@triton.jit
@no_type_check
def _compose(pr, pi, hr, hi, qr, qi, kr, ki):
    return pr * qr - pi * qi, pr * qi + pi * qr, qr * hr - qi * hi + kr, qr * hi + qi * hr + ki


@triton.jit
@no_type_check
def _compose_real(p, hr, hi, q, kr, ki):
    return p * q, q * hr + kr, q * hi + ki


@triton.jit
@no_type_check
def _times(ar, ai, hr, hi, COMPLEX: tl.constexpr):
    if COMPLEX:
        return ar * hr - ai * hi, ar * hi + ai * hr
    else:
        return ar * hr, ar * hi


@triton.jit
@no_type_check
def _decay(step, rate, speed, COMPLEX: tl.constexpr):
    """exp(Δ λ); the angle is taken modulo π and its odd multiples turn the sign."""
    radius = tl.exp(step * rate)
    if COMPLEX:
        angle = step * speed
        shifted = angle * _INVERSE_PI + _ROUND
        turns = shifted - _ROUND
        x = ((angle - turns * _PI_HIGH) - turns * _PI_MIDDLE) - turns * _PI_LOW
        radius = (radius.to(tl.int32, bitcast=True) ^ (shifted.to(tl.int32, bitcast=True) << 31)).to(
            tl.float32, bitcast=True
        )
        y = x * x
        sine = x + x * y * (_S0 + y * (_S1 + y * (_S2 + y * _S3)))
        cosine = 1.0 + y * (_C0 + y * (_C1 + y * (_C2 + y * (_C3 + y * _C4))))
        return radius * cosine, radius * sine
    else:
        return radius, radius


@triton.jit
@no_type_check
def _pairs(one, other, BM: tl.constexpr, C: tl.constexpr):
    return tl.reshape(tl.join(one, other), (BM, 2 * C))


@triton.jit
@no_type_check
def _unpair(both, BM: tl.constexpr, C: tl.constexpr):
    return tl.split(tl.reshape(both, (BM, C, 2)))


@triton.jit
@no_type_check
def _scan(pr, pi, hr, hi, one, zero, BM: tl.constexpr, C: tl.constexpr, COMPLEX: tl.constexpr, REVERSE: tl.constexpr):
    """What the chunks before (after, if reversed) hand to each chunk, and what each hands on.

    Every chunk is paired with an identity map on the side its input comes from: the scan's value there is exclusive.
    """
    if REVERSE:
        hr, hi, pr = _pairs(hr, zero, BM, C), _pairs(hi, zero, BM, C), _pairs(pr, one, BM, C)
        if COMPLEX:
            pi = _pairs(pi, zero, BM, C)
    else:
        hr, hi, pr = _pairs(zero, hr, BM, C), _pairs(zero, hi, BM, C), _pairs(one, pr, BM, C)
        if COMPLEX:
            pi = _pairs(zero, pi, BM, C)
    if COMPLEX:
        _, _, hr, hi = tl.associative_scan((pr, pi, hr, hi), 1, _compose, reverse=REVERSE)
    else:
        _, hr, hi = tl.associative_scan((pr, hr, hi), 1, _compose_real, reverse=REVERSE)
    first_r, second_r = _unpair(hr, BM, C)
    first_i, second_i = _unpair(hi, BM, C)
    if REVERSE:
        return second_r, second_i, first_r, first_i
    else:
        return first_r, first_i, second_r, second_i


@triton.jit
@no_type_check
def _load(pointer, here, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(pointer)
    else:
        return tl.load(pointer, mask=here, other=0.0)


@triton.jit
@no_type_check
def _rows(
    v, beta, dt, d_states, token, left, inside, inside_dt, known,
    M: tl.constexpr, G: tl.constexpr, L: tl.constexpr, EVEN: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """Δ, v, β (and the states' gradient) of each chunk's tokens as they lie in memory: 5 (7) tensors a token."""
    wide = token * (2 * M) + inside
    narrow = token * G + inside_dt
    rows = ()
    for l in tl.static_range(L):
        here = (left > l) & known
        rows = rows + (
            _load(dt + narrow + l * G, here, EVEN),
            _load(v + wide + l * 2 * M, here, EVEN),
            _load(v + wide + l * 2 * M + M, here, EVEN),
            _load(beta + wide + l * 2 * M, here, EVEN),
            _load(beta + wide + l * 2 * M + M, here, EVEN),
        )
        if GRADIENT:
            rows = rows + (
                _load(d_states + wide + l * 2 * M, here, EVEN),
                _load(d_states + wide + l * 2 * M + M, here, EVEN),
            )
    return rows


@triton.jit(do_not_specialize=["length"])
@no_type_check
def forward_kernel(
    v, beta, dt, real, omega, initial, resets, states, final, entering, length,
    M: tl.constexpr, MPG: tl.constexpr, BM: tl.constexpr, C: tl.constexpr, L: tl.constexpr, SAVE: tl.constexpr,
    COMPLEX: tl.constexpr, INITIAL: tl.constexpr, RESETS: tl.constexpr, EVEN: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Walks one row of BM modes from its first tile to its last."""
    N: tl.constexpr = 2 * M
    G: tl.constexpr = M // MPG
    TOKENS: tl.constexpr = C * L
    blocks: tl.constexpr = (M + BM - 1) // BM
    row = (tl.program_id(0) // blocks).to(tl.int64)
    m = (tl.program_id(0) % blocks) * BM + tl.arange(0, BM)[:, None]
    chunk = tl.arange(0, C)[None, :]
    known = m < M
    one = tl.full((BM, C), 1.0, tl.float32)
    zero = tl.zeros((BM, C), tl.float32)
    rate = tl.load(real + m, mask=known, other=0.0)
    speed = rate
    if COMPLEX:
        speed = tl.load(omega + m, mask=known, other=0.0)
    carry_r = tl.zeros((BM, 1), tl.float32)
    carry_i = tl.zeros((BM, 1), tl.float32)
    if INITIAL:
        carry_r = tl.load(initial + row * N + m, mask=known, other=0.0)
        carry_i = tl.load(initial + row * N + M + m, mask=known, other=0.0)
    slots = tl.cdiv(length, SAVE)
    inside = chunk * L * N + m
    inside_dt = chunk * L * G + m // MPG
    tiles = tl.cdiv(length, TOKENS)
    left = length - chunk * L
    if AHEAD:
        coming = _rows(v, beta, dt, v, row * length, left, inside, inside_dt, known, M, G, L, EVEN, False)
    for tile in range(tiles):
        start = row * length + tile * TOKENS
        wide = start * N + inside
        left = length - tile * TOKENS - chunk * L
        if AHEAD:
            rows = coming
            then = tl.minimum(tile + 1, tiles - 1) * TOKENS  # at the end the last tile again, from cache
            coming = _rows(
                v, beta, dt, v, row * length + then, length - then - chunk * L, inside, inside_dt, known,
                M, G, L, EVEN, False,
            )  # fmt: skip
        else:
            rows = _rows(v, beta, dt, v, start, left, inside, inside_dt, known, M, G, L, EVEN, False)
        ar, ai, ur, ui = (), (), (), ()
        hr = tl.where(chunk == 0, carry_r, 0.0)
        hi = tl.where(chunk == 0, carry_i, 0.0)
        pr, pi = one, zero
        for l in tl.static_range(L):
            step = rows[5 * l]
            xr, xi = _decay(step, rate, speed, COMPLEX)
            if RESETS:
                reset = _load(resets + start + chunk * L + l, left > l, EVEN)
                xr = tl.where(reset != 0, 0.0, xr)
                xi = tl.where(reset != 0, 0.0, xi)
            yr = step * (rows[5 * l + 3].to(tl.float32) * rows[5 * l + 1].to(tl.float32))
            yi = step * (rows[5 * l + 4].to(tl.float32) * rows[5 * l + 2].to(tl.float32))
            hr, hi = _times(xr, xi, hr, hi, COMPLEX)
            hr += yr
            hi += yi
            pr, pi = _times(xr, xi, pr, pi, COMPLEX)
            ar, ai, ur, ui = ar + (xr,), ai + (xi,), ur + (yr,), ui + (yi,)
        in_r, in_i, out_r, out_i = _scan(pr, pi, hr, hi, one, zero, BM, C, COMPLEX, False)
        hr = tl.where(chunk == 0, carry_r, in_r)
        hi = tl.where(chunk == 0, carry_i, in_i)
        carry_r = tl.sum(tl.where(chunk == C - 1, out_r, 0.0), axis=1)[:, None]
        carry_i = tl.sum(tl.where(chunk == C - 1, out_i, 0.0), axis=1)[:, None]
        token = tile * TOKENS + chunk * L
        saved = known & (token < length) & (token % SAVE == 0)
        slot = (row * slots + token // SAVE) * N + m
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
    tl.store(final + row * N + m, carry_r, mask=known)
    tl.store(final + row * N + M + m, carry_i, mask=known)


@triton.jit(do_not_specialize=["length"])
@no_type_check
def backward_kernel(
    v, beta, dt, real, omega, resets, entering, d_states, d_final,
    d_v, d_beta, d_dt, d_real, d_omega, d_initial, length,
    M: tl.constexpr, MPG: tl.constexpr, BM: tl.constexpr, C: tl.constexpr, L: tl.constexpr,
    COMPLEX: tl.constexpr, RESETS: tl.constexpr, EVEN: tl.constexpr, AHEAD: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Walks one row of BM modes from its last tile to its first."""
    N: tl.constexpr = 2 * M
    G: tl.constexpr = M // MPG
    TOKENS: tl.constexpr = C * L
    blocks: tl.constexpr = (M + BM - 1) // BM
    row = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    m = block * BM + tl.arange(0, BM)[:, None]
    group = block * (BM // MPG) + tl.arange(0, BM // MPG)[:, None]
    chunk = tl.arange(0, C)[None, :]
    known = m < M
    one = tl.full((BM, C), 1.0, tl.float32)
    zero = tl.zeros((BM, C), tl.float32)
    rate = tl.load(real + m, mask=known, other=0.0)
    speed = rate
    if COMPLEX:
        speed = tl.load(omega + m, mask=known, other=0.0)
    sum_r, sum_i = zero, zero
    carry_r = tl.load(d_final + row * N + m, mask=known, other=0.0)
    carry_i = tl.load(d_final + row * N + M + m, mask=known, other=0.0)
    tiles = tl.cdiv(length, TOKENS)
    inside = chunk * L * N + m
    inside_dt = chunk * L * G + m // MPG
    inside_group = chunk * L * G + group
    if AHEAD:
        then = tl.maximum(tiles - 1, 0) * TOKENS
        coming = _rows(
            v, beta, dt, d_states, row * length + then, length - then - chunk * L, inside, inside_dt, known,
            M, G, L, EVEN, True,
        )  # fmt: skip
    for number in range(tiles):
        tile = tiles - 1 - number
        start = row * length + tile * TOKENS
        wide = start * N + inside
        left = length - tile * TOKENS - chunk * L
        if AHEAD:
            rows = coming
            then = tl.maximum(tile - 1, 0) * TOKENS  # at the end the first tile again, from cache
            coming = _rows(
                v, beta, dt, d_states, row * length + then, length - then - chunk * L, inside, inside_dt, known,
                M, G, L, EVEN, True,
            )  # fmt: skip
        else:
            rows = _rows(v, beta, dt, d_states, start, left, inside, inside_dt, known, M, G, L, EVEN, True)
        slot = (row * tiles + tile) * N + m
        start_r = tl.load(entering + slot, mask=known, other=0.0)
        start_i = tl.load(entering + slot + M, mask=known, other=0.0)
        ar, ai, ur, ui = (), (), (), ()
        hr = tl.where(chunk == 0, start_r, 0.0)
        hi = tl.where(chunk == 0, start_i, 0.0)
        pr, pi = one, zero
        for l in tl.static_range(L):
            step = rows[7 * l]
            xr, xi = _decay(step, rate, speed, COMPLEX)
            if RESETS:
                reset = _load(resets + start + chunk * L + l, left > l, EVEN)
                xr = tl.where(reset != 0, 0.0, xr)
                xi = tl.where(reset != 0, 0.0, xi)
            hr, hi = _times(xr, xi, hr, hi, COMPLEX)
            yr = step * (rows[7 * l + 3].to(tl.float32) * rows[7 * l + 1].to(tl.float32))
            yi = step * (rows[7 * l + 4].to(tl.float32) * rows[7 * l + 2].to(tl.float32))
            hr += yr
            hi += yi
            pr, pi = _times(xr, xi, pr, pi, COMPLEX)
            ar, ai, ur, ui = ar + (xr,), ai + (xi,), ur + (yr,), ui + (yi,)
        cr = tl.where(chunk == C - 1, carry_r, 0.0)
        ci = tl.where(chunk == C - 1, carry_i, 0.0)
        for l in tl.static_range(L - 1, -1, -1):
            cr, ci = _times(
                ar[l], -ai[l], cr + rows[7 * l + 5].to(tl.float32), ci + rows[7 * l + 6].to(tl.float32), COMPLEX
            )
        in_r, in_i, _, _ = _scan(pr, pi, hr, hi, one, zero, BM, C, COMPLEX, False)
        hr = tl.where(chunk == 0, start_r, in_r)
        hi = tl.where(chunk == 0, start_i, in_i)
        in_r, in_i, out_r, out_i = _scan(pr, -pi, cr, ci, one, zero, BM, C, COMPLEX, True)
        cr = tl.where(chunk == C - 1, carry_r, in_r)
        ci = tl.where(chunk == C - 1, carry_i, in_i)
        carry_r = tl.sum(tl.where(chunk == 0, out_r, 0.0), axis=1)[:, None]
        carry_i = tl.sum(tl.where(chunk == 0, out_i, 0.0), axis=1)[:, None]
        krs, kis = (), ()  # a_t h_{t−1}
        for l in tl.static_range(L):
            kr, ki = _times(ar[l], ai[l], hr, hi, COMPLEX)
            krs, kis = krs + (kr,), kis + (ki,)
            hr = kr + ur[l]
            hi = ki + ui[l]
        for l in tl.static_range(L - 1, -1, -1):
            here = (left > l) & known
            gr = cr + rows[7 * l + 5].to(tl.float32)
            gi = ci + rows[7 * l + 6].to(tl.float32)
            cr, ci = _times(ar[l], -ai[l], gr, gi, COMPLEX)
            step = rows[7 * l]
            if AGAIN:
                vr = _load(v + wide + l * N, here, EVEN).to(tl.float32)
                vi = _load(v + wide + l * N + M, here, EVEN).to(tl.float32)
                br = _load(beta + wide + l * N, here, EVEN).to(tl.float32)
                bi = _load(beta + wide + l * N + M, here, EVEN).to(tl.float32)
            else:
                vr = rows[7 * l + 1].to(tl.float32)
                vi = rows[7 * l + 2].to(tl.float32)
                br = rows[7 * l + 3].to(tl.float32)
                bi = rows[7 * l + 4].to(tl.float32)
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
            steps = d_dt + start * G + inside_group + l * G
            if EVEN:
                tl.store(d_v + wide + l * N, gr * br)
                tl.store(d_v + wide + l * N + M, gi * bi)
                tl.store(d_beta + wide + l * N, gr * vr)
                tl.store(d_beta + wide + l * N + M, gi * vi)
                tl.store(steps, slope)
            else:
                tl.store(d_v + wide + l * N, gr * br, mask=here)
                tl.store(d_v + wide + l * N + M, gi * bi, mask=here)
                tl.store(d_beta + wide + l * N, gr * vr, mask=here)
                tl.store(d_beta + wide + l * N + M, gi * vi, mask=here)
                tl.store(steps, slope, mask=(left > l) & (group < G))
    tl.store(d_initial + row * N + m, carry_r, mask=known)
    tl.store(d_initial + row * N + M + m, carry_i, mask=known)
    mode = block * BM + tl.arange(0, BM)
    tl.store(d_real + row * M + mode, tl.sum(sum_r, axis=1), mask=mode < M)
    if COMPLEX:
        tl.store(d_omega + row * M + mode, tl.sum(sum_i, axis=1), mask=mode < M)
