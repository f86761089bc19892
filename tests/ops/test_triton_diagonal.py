"""Law 2 for the fused selective scan: it equals the loop in values and gradients, and writes all of its outputs."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from precog.errors import UsageError
from precog.ops import selective_loop
from precog.ops.triton_diagonal import (
    Tile,
    Tiles,
    is_supported,
    launch_backward,
    launch_forward,
    selective_scan_op,
    tiles_for,
)

NAMES = ("states", "final", "d_v", "d_beta", "d_dt", "d_real", "d_omega", "d_initial")
SMALL = Tiles(Tile(8, 4, 4, 1), Tile(8, 4, 2, 1, again=True))  # tiles of 16 tokens forward, 8 backward
TALL = Tiles(Tile(16, 2, 8, 1, ahead=True), Tile(16, 2, 16, 1, ahead=True))  # 16 forward, 32 backward
EVEN = Tiles(Tile(8, 8, 2, 1), Tile(8, 4, 4, 1, ahead=True, again=True))  # 16 both
CHAIN = Tiles(Tile(8, 4, 4, 1, chain=True), Tile(8, 4, 2, 1, chain=True))
CHAIN_AGAIN = Tiles(Tile(16, 2, 8, 1, chain=True), Tile(16, 2, 8, 1, again=True, chain=True))


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that nobody wrote reads as NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def make(rows, length, groups, per_group, device, dtype=torch.float32, seed=0, speed="pi"):
    generator = torch.Generator().manual_seed(seed)
    modes = groups * per_group

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    dt = (torch.rand(rows, length, groups, generator=generator) * 6.9 - 6.9).exp()  # 1e-3 … 1
    dt[torch.rand(rows, length, generator=generator) < 0.1] = 0.0  # padded tokens
    omega = math.pi * torch.arange(per_group).repeat(groups) if speed == "pi" else 20 * draw(modes)
    inputs = [
        draw(rows, length, 2 * modes).to(device, dtype),
        (1 + draw(rows, length, 2 * modes)).to(device, dtype),
        dt.to(device),
        -(0.5 * draw(modes)).exp().to(device),
        None if speed == "zero" else omega.to(device),
        draw(rows, 2 * modes).to(device),
    ]
    weights = (draw(rows, length, 2 * modes).to(device), draw(rows, 2 * modes).to(device))
    return inputs, weights


def judged(inputs, weights, initial, resets):
    """The loop in FP64."""
    wide = [None if x is None else x.double().requires_grad_() for x in inputs]
    states, final = selective_loop(*wide[:5], wide[5] if initial else None, resets)
    loss = (states * weights[0].double()).sum() + (final * weights[1].double()).sum()
    known = [x for x in wide if x is not None]
    found = iter(torch.autograd.grad(loss, known, allow_unused=True, materialize_grads=True))
    return [states, final, *(None if x is None else next(found) for x in wide)]


def fused(inputs, weights, initial, resets, tiles):
    """Both kernels with tiles of one's own."""
    v, beta, dt, real, omega, start = inputs
    with poisoned():
        states, final, entering = launch_forward(v, beta, dt, real, omega, start if initial else None, resets, tiles)
        found = launch_backward(
            v, beta, dt, real, omega, resets, entering, weights[0].to(states.dtype), weights[1], tiles
        )
    d_v, d_beta, d_dt, d_real, d_omega, d_start = found
    gradients = (d_v, d_beta, d_dt, d_real, None if omega is None else d_omega, d_start if initial else None)
    assert entering.isfinite().all()
    return [states, final, *gradients]


def compare(actual, expected, tolerance, narrow=None):
    """``narrow`` is for what is rounded to the dtype of v: states and gradients of v and β."""
    for name, a, e in zip(NAMES, actual, expected, strict=True):
        if a is None:
            assert e is None or not e.any(), name
            continue
        assert a.isfinite().all(), name
        limit = narrow if narrow is not None and name in ("states", "d_v", "d_beta") else tolerance
        error = (a.double() - e).abs().max().item()
        assert error <= limit * max(1.0, e.abs().max().item()), (name, error)


@settings(deadline=None, max_examples=16)
@given(
    length=st.sampled_from([1, 2, 3, 8, 15, 16, 17, 33]),
    tiles=st.sampled_from([SMALL, TALL, EVEN, CHAIN, CHAIN_AGAIN]),
    sizes=st.sampled_from([(1, 1, 8), (2, 3, 8), (1, 5, 2), (3, 9, 1)]),
    seed=st.integers(0, 10**6),
    speed=st.sampled_from(["pi", "free", "zero"]),
    initial=st.booleans(),
    share=st.sampled_from([None, 0.0, 0.1, 0.5]),
)
def test_equals_the_loop_with_gradients(device, length, tiles, sizes, seed, speed, initial, share):
    rows, groups, per_group = sizes
    inputs, weights = make(rows, length, groups, per_group, device, seed=seed, speed=speed)
    generator = torch.Generator().manual_seed(seed)
    resets = None if share is None else (torch.rand(rows, length, generator=generator) < share).to(device)
    compare(fused(inputs, weights, initial, resets, tiles), judged(inputs, weights, initial, resets), 2e-5)


@pytest.mark.parametrize(("length", "per_group"), [(63, 8), (64, 16), (65, 16), (130, 8)])
@pytest.mark.parametrize("tiles", [TALL, CHAIN_AGAIN], ids=["walked", "chained"])
def test_many_tiles(device, length, per_group, tiles):
    inputs, weights = make(2, length, 1, per_group, device, seed=length)
    compare(fused(inputs, weights, True, None, tiles), judged(inputs, weights, True, None), 2e-5)


@pytest.mark.parametrize("tiles", [SMALL, CHAIN, CHAIN_AGAIN], ids=["walked", "chained", "again"])
def test_rows_of_no_tokens_hand_their_state_through(device, tiles):
    inputs, weights = make(2, 0, 1, 8, device)
    found = fused(inputs, weights, True, None, tiles)
    assert torch.equal(found[NAMES.index("final")], inputs[5])
    assert torch.equal(found[NAMES.index("d_initial")], weights[1])
    assert not found[NAMES.index("d_real")].any()


@pytest.mark.parametrize("where", [(0, 7, 8), (1, 16, 19), (3, 4, 15)])
def test_a_reset_at_every_kind_of_edge(device, where):
    inputs, weights = make(2, 20, 1, 8, device, seed=where[1])
    resets = torch.zeros(2, 20, dtype=torch.bool, device=device)
    resets[0, list(where)] = True  # the other row goes on
    compare(fused(inputs, weights, True, resets, SMALL), judged(inputs, weights, True, resets), 2e-5)


def test_rows_that_are_only_resets(device):
    inputs, weights = make(1, 20, 1, 8, device)
    resets = torch.ones(1, 20, dtype=torch.bool, device=device)
    found = fused(inputs, weights, True, resets, SMALL)
    compare(found, judged(inputs, weights, True, resets), 2e-5)
    assert not found[NAMES.index("d_initial")].any()
    assert not found[NAMES.index("d_real")].any()


def test_bf16_rounds_its_outputs_and_nothing_else(device):
    inputs, weights = make(2, 24, 1, 8, device, dtype=torch.bfloat16)
    weights = (weights[0].bfloat16().float(), weights[1])
    found = fused(inputs, weights, True, None, SMALL)
    assert [x.dtype for x in found] == [torch.bfloat16, torch.float32, *[torch.bfloat16] * 2, *[torch.float32] * 4]
    compare(found, judged(inputs, weights, True, None), 2e-5, narrow=2**-8)


def test_steps_keep_their_accuracy_because_states_are_computed_again(device):
    """From states rounded to BF16 the gradient of Δ would be wrong in the third digit."""
    inputs, weights = make(1, 32, 2, 8, device, dtype=torch.bfloat16, speed="zero")
    weights = (weights[0].bfloat16().float(), weights[1])
    expected = judged(inputs, weights, False, None)
    states, step = expected[0].detach(), inputs[2].double()
    rounded = states.bfloat16().double()
    # Δ's gradient has Re(conj(g) a h λ); g is about dv / (Δ β)
    live = (step > 0).repeat_interleave(8, -1).repeat(1, 1, 2)[:, 1:]
    g = torch.where(live, expected[2][:, 1:] / (step.repeat_interleave(8, -1).repeat(1, 1, 2) * inputs[1])[:, 1:], 0.0)
    decay = (step[:, 1:].repeat_interleave(8, -1) * inputs[3].double()).exp() * inputs[3].double()
    shift = (g * (rounded - states)[:, :-1] * decay.repeat(1, 1, 2)).unflatten(-1, (2, 2, 8)).sum((2, 4))
    from_rounded = shift.abs().max().item()
    found = fused(inputs, weights, False, None, SMALL)[NAMES.index("d_dt")]
    assert (found - expected[4]).abs().max().item() < 0.01 * from_rounded


def test_long_memory_does_not_drift(device):
    """A mode that hardly decays still holds after many tiles what was written first."""
    v = torch.zeros(1, 320, 2)
    v[0, 0] = 1.0
    dt = torch.full((1, 320, 1), 1e-3)
    inputs = [x.to(device) for x in (v, torch.ones_like(v), dt, torch.tensor([-0.01]), torch.tensor([3.0]))]
    _, final, _ = launch_forward(*inputs, None, None, Tiles(Tile(2, 8, 16, 1), Tile(2, 8, 16, 1)))
    expected = selective_loop(*(x.double() for x in inputs))[1]
    torch.testing.assert_close(final.double(), expected, rtol=0, atol=1e-4 * expected.abs().max().item())


@pytest.mark.parametrize("speed", ["pi", "zero"])
def test_the_operation_differentiates_and_repeats_bit_for_bit(device, speed):
    inputs, weights = make(2, 70, 2, 8, device, speed=speed)
    resets = (torch.rand(2, 70, generator=torch.Generator().manual_seed(1)) < 0.1).to(device)
    expected = judged(inputs, weights, True, resets)
    results = []
    for _ in range(2):
        leaves = [None if x is None else x.clone().requires_grad_() for x in inputs]
        with poisoned():
            states, final, _ = selective_scan_op(*leaves, resets)
            known = [x for x in leaves if x is not None]
            found = iter(torch.autograd.grad((states * weights[0]).sum() + (final * weights[1]).sum(), known))
        results.append([states, final, *(None if x is None else next(found) for x in leaves)])
    compare(results[0], expected, 2e-5)
    for once, again in zip(*results, strict=True):
        assert once is again is None or torch.equal(once, again)


def test_only_the_states_or_only_the_final_one_may_be_used(device):
    inputs, weights = make(1, 20, 1, 8, device)
    v = inputs[0].clone().requires_grad_()
    for number in range(2):
        out = selective_scan_op(v, *inputs[1:], None)[number]
        (found,) = torch.autograd.grad((out * weights[number]).sum(), v)
        only = [weights[0] * (1 - number), weights[1] * number]
        torch.testing.assert_close(found.double(), judged(inputs, only, True, None)[2], rtol=1e-4, atol=1e-5)


def test_views_and_rows_of_no_tokens(device):
    inputs, _ = make(2, 12, 1, 8, device)
    v, beta, dt, real, omega, start = inputs
    whole = selective_scan_op(v, beta[:, :1].expand_as(v).contiguous(), dt, real, omega, start, None)
    views = torch.stack((v, v), -1)[..., 0], beta[:, :1].expand_as(v), dt.mT.contiguous().mT
    for actual, expected in zip(selective_scan_op(*views, real, omega, start, None), whole, strict=True):
        assert torch.equal(actual, expected)
    leaf = start.clone().requires_grad_()
    _, final, _ = selective_scan_op(v[:, :0], beta[:, :0], dt[:, :0], real, omega, leaf, None)
    assert torch.equal(final, start)
    assert torch.equal(torch.autograd.grad(final, leaf, start)[0], start)
    assert selective_scan_op(v[:0], beta[:0], dt[:0], real, omega, None, None)[1].shape == (0, 16)


def test_a_compiler_sees_the_shapes_that_come_out(device):
    inputs, _ = make(2, 70, 2, 8, device, dtype=torch.bfloat16)
    torch.library.opcheck(
        selective_scan_op,
        (*inputs, None),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


def test_which_inputs_and_tiles_are_known():
    v, dt, real = torch.zeros(1, 2, 32), torch.zeros(1, 2, 2), torch.zeros(16)
    assert is_supported(v, dt, real)
    assert is_supported(v.bfloat16(), dt, real)
    assert not is_supported(v.double(), dt, real)
    assert not is_supported(v, dt.double(), real)
    assert not is_supported(torch.zeros(1, 2, 24), torch.zeros(1, 2, 4), torch.zeros(12))  # three modes a group
    with pytest.raises(UsageError, match="10 tokens, chunks of 4"):
        Tiles(Tile(8, 4, 4, 1), Tile(8, 2, 5, 1))
    for rows, modes, per_group in [(8, 2048, 8), (1, 2048, 8), (1, 64, 32), (1, 384, 16)]:
        tiles = tiles_for(rows, modes, per_group)
        assert min(tiles.forward.modes, tiles.backward.modes) >= per_group
        assert tiles.backward.tokens % tiles.forward.steps == 0
