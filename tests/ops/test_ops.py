"""Law 2: the parallel scans equal the loop in values and gradients; in LTI mode both equal the FFT."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.ops import chunked_outer_scan, diagonal_loop, diagonal_scan, lti_fft, outer_loop, outer_scan


def diagonal_inputs(rows, length, modes, seed):
    generator = torch.Generator().manual_seed(seed)
    radius = torch.rand(rows, length, modes, generator=generator, dtype=torch.float64)
    phase = torch.rand(rows, length, modes, generator=generator, dtype=torch.float64) * 6.28
    decay = torch.stack((radius * phase.cos(), radius * phase.sin()), -1)
    drive = torch.randn(rows, length, modes, 2, generator=generator, dtype=torch.float64)
    initial = torch.randn(rows, modes, 2, generator=generator, dtype=torch.float64)
    resets = torch.rand(rows, length, generator=generator) < 0.2
    return decay, drive, initial, resets


@settings(deadline=None, max_examples=30)
@given(length=st.integers(1, 70), seed=st.integers(0, 10**6), with_state=st.booleans(), with_resets=st.booleans())
def test_diagonal_scan_equals_loop_with_gradients(length, seed, with_state, with_resets):
    decay, drive, initial, resets = diagonal_inputs(2, length, 3, seed)
    arguments = [decay.requires_grad_(), drive.requires_grad_(), initial.requires_grad_()]
    extra = (arguments[2] if with_state else None, resets if with_resets else None)
    weight = torch.randn(2, length, 3, 2, dtype=torch.float64)
    results = []
    for function in (diagonal_loop, diagonal_scan):
        states = function(arguments[0], arguments[1], *extra)
        gradients = torch.autograd.grad((states * weight).sum(), arguments, allow_unused=True, materialize_grads=True)
        results.append((states, *gradients))
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=30)
@given(
    length=st.integers(1, 90),
    chunk=st.sampled_from([1, 3, 16, 64]),
    seed=st.integers(0, 10**6),
    with_state=st.booleans(),
    with_resets=st.booleans(),
)
def test_outer_scan_equals_loop_with_gradients(length, chunk, seed, with_state, with_resets):
    torch.manual_seed(seed)
    rows, heads, k, p = 2, 2, 3, 4
    log_decay = (-3 * torch.rand(rows, length, heads, dtype=torch.float64)).requires_grad_()
    write, read = (torch.randn(rows, length, heads, k, dtype=torch.float64, requires_grad=True) for _ in range(2))
    value = torch.randn(rows, length, heads, p, dtype=torch.float64, requires_grad=True)
    initial = torch.randn(rows, heads, k, p, dtype=torch.float64, requires_grad=True)
    resets = torch.rand(rows, length) < 0.2
    arguments = [log_decay, write, value, read, initial]
    extra = (initial if with_state else None, resets if with_resets else None)
    weight = torch.randn(rows, length, heads, p, dtype=torch.float64)
    final_weight = torch.randn(rows, heads, k, p, dtype=torch.float64)
    results = []
    for function, more in ((outer_loop, {}), (chunked_outer_scan, {"chunk_length": chunk})):
        y, final = function(log_decay, write, value, read, *extra, **more)
        loss = (y * weight).sum() + (final * final_weight).sum()
        gradients = torch.autograd.grad(loss, arguments, allow_unused=True, materialize_grads=True)
        results.append((y, final, *gradients))
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("with_state", [False, True])
def test_fft_equals_scan_equals_loop_when_time_invariant(with_state):
    decay, drive, initial, _ = diagonal_inputs(2, 50, 4, 0)
    constant = decay[0, 0]
    expanded = constant.expand(2, 50, 4, 2)
    start = initial if with_state else None
    loop = diagonal_loop(expanded, drive, start)
    torch.testing.assert_close(diagonal_scan(expanded, drive, start), loop, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(lti_fft(constant, drive, start), loop, rtol=1e-9, atol=1e-9)


def test_split_anywhere_gives_the_same_states():
    decay, drive, initial, _ = diagonal_inputs(2, 40, 3, 1)
    whole = diagonal_scan(decay, drive, initial)
    for cut in (1, 2, 17, 39):
        head = diagonal_scan(decay[:, :cut], drive[:, :cut], initial)
        rest = diagonal_scan(decay[:, cut:], drive[:, cut:], head[:, -1])
        torch.testing.assert_close(torch.cat((head, rest), 1), whole, rtol=1e-12, atol=1e-12)


def test_strong_decay_neither_overflows_nor_leaves_nan():
    decay = torch.zeros(1, 200, 2, 2)
    decay[..., 0] = 1e-30
    states = diagonal_scan(decay, torch.ones(1, 200, 2, 2))
    assert torch.isfinite(states).all()
    y, final = outer_scan(
        torch.full((1, 200, 1), -80.0), torch.ones(1, 200, 1, 2), torch.ones(1, 200, 1, 2), torch.ones(1, 200, 1, 2)
    )
    assert torch.isfinite(y).all()
    assert torch.isfinite(final).all()
