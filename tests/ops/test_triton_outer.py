"""Law 2 for the fused outer-product scan: it equals the loop in values and gradients, and writes all of its outputs."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from precog.ops import chunked_outer_scan, outer_loop
from precog.ops.triton_outer import is_supported, triton_outer_scan

NAMES = ("readouts", "final", "d_log_decay", "d_write", "d_value", "d_read", "d_initial")


@contextmanager
def poisoned() -> Iterator[None]:
    """Memory that nobody wrote reads as NaN."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def make(rows, length, heads, k, p, device, dtype=torch.float32, seed=0, rate=2.0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    decay = -rate * torch.rand(rows, length, heads, generator=generator)
    inputs = [
        decay.to(device),
        (draw(rows, length, heads, k) / k**0.5).to(device, dtype),
        draw(rows, length, heads, p).to(device, dtype),
        (draw(rows, length, heads, k) / k**0.5).to(device, dtype),
        draw(rows, heads, k, p).to(device),
    ]
    weights = (draw(rows, length, heads, p).to(device), draw(rows, heads, k, p).to(device))
    return [x.requires_grad_() for x in inputs], weights


def evaluate(function, inputs, weights, initial, resets, cast=None, **options):
    arguments = [x if cast is None else x.to(cast) for x in inputs]
    y, final = function(*arguments[:4], arguments[4] if initial else None, resets, **options)
    loss = (y.double() * weights[0]).sum() + (final.double() * weights[1]).sum()
    gradients = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    return (y, final, *gradients)


def compare(actual, expected, tolerance):
    for name, a, e in zip(NAMES, actual, expected, strict=True):
        error = (a.double() - e.double()).abs().max().item()
        assert error <= tolerance * max(1.0, e.double().abs().max().item()), (name, error)


@settings(deadline=None, max_examples=12)
@given(
    length=st.integers(1, 50),
    chunk=st.sampled_from([None, 16, 32]),
    sizes=st.sampled_from([(1, 3, 5), (2, 4, 20)]),
    seed=st.integers(0, 10**6),
    initial=st.booleans(),
    share=st.sampled_from([None, 0.0, 0.1, 0.5]),
)
def test_equals_the_loop_in_values_and_gradients(device, length, chunk, sizes, seed, initial, share):
    inputs, weights = make(2, length, *sizes, device, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    resets = None if share is None else (torch.rand(2, length, generator=generator) < share).to(device)
    expected = evaluate(outer_loop, inputs, weights, initial, resets, torch.float64)
    with poisoned():
        actual = evaluate(triton_outer_scan, inputs, weights, initial, resets, chunk_length=chunk)
    assert actual[0].dtype == actual[1].dtype == torch.float32
    compare(actual, expected, 1e-5)


@pytest.mark.parametrize("at", [(0,), (15,), (16,), (17,), (31, 32), (15, 16, 17), (0, 39), tuple(range(40))])
def test_resets_at_and_beside_the_edges_of_chunks(device, at):
    inputs, weights = make(2, 40, 1, 4, 4, device)
    resets = torch.zeros(2, 40, dtype=torch.bool, device=device)
    resets[1, list(at)] = True
    expected = evaluate(outer_loop, inputs, weights, True, resets, torch.float64)
    actual = evaluate(triton_outer_scan, inputs, weights, True, resets, chunk_length=16)
    compare(actual, expected, 1e-5)
    if 0 in at:  # no gradient reaches a state that was dropped
        assert (actual[6][1] == 0).all()


def test_bf16_is_as_close_to_the_loop_as_the_torch_form(device):
    inputs, weights = make(2, 75, 2, 32, 16, device, torch.bfloat16, rate=0.2)
    resets = torch.zeros(2, 75, dtype=torch.bool, device=device)
    resets[:, 50] = True
    expected = evaluate(outer_loop, inputs, weights, True, resets, torch.float64)
    actual = evaluate(triton_outer_scan, inputs, weights, True, resets)
    assert [x.dtype for x in actual] == [torch.bfloat16, *[torch.float32] * 2, *[torch.bfloat16] * 3, torch.float32]
    compare(actual, expected, 1e-2)
    for name, a, e, t in zip(
        NAMES, actual, expected, evaluate(chunked_outer_scan, inputs, weights, True, resets), strict=True
    ):
        ours, torchs = ((x.double() - e.double()).square().mean().sqrt().item() for x in (a, t))
        assert ours <= 1.1 * torchs, name


def test_split_anywhere_gives_the_same_states(device):
    inputs, _ = make(1, 40, 2, 4, 4, device)
    whole, final = triton_outer_scan(*inputs)
    for cut in (1, 16, 33):
        head, middle = triton_outer_scan(*(x[:, :cut] for x in inputs[:4]), inputs[4])
        rest, last = triton_outer_scan(*(x[:, cut:] for x in inputs[:4]), middle)
        torch.testing.assert_close(torch.cat((head, rest), 1), whole, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(last, final, rtol=1e-5, atol=1e-5)


def test_inputs_may_be_views_of_any_strides(device):
    inputs, weights = make(2, 20, 2, 4, 6, device)
    strided = [x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for x in inputs]
    assert not strided[1].is_contiguous()
    compare(
        evaluate(triton_outer_scan, strided, weights, True, None),
        evaluate(triton_outer_scan, inputs, weights, True, None),
        1e-6,
    )


def test_without_gradients_nothing_is_saved_and_nothing_changes(device):
    inputs, _ = make(2, 40, 1, 4, 4, device)
    y, final = triton_outer_scan(*inputs)
    with torch.no_grad():
        again = triton_outer_scan(*inputs)
    torch.testing.assert_close(again, (y, final), rtol=0, atol=0)
    assert not again[0].requires_grad


def test_strong_decay_neither_overflows_nor_leaves_nan(device):
    inputs, weights = make(1, 100, 1, 4, 4, device)
    with torch.no_grad():
        inputs[0].fill_(-80.0)
    actual = evaluate(triton_outer_scan, inputs, weights, True, None)
    assert all(torch.isfinite(x).all() for x in actual)


def test_an_empty_batch_gives_empty_results(device):
    inputs, _ = make(2, 5, 1, 4, 4, device)
    y, final = triton_outer_scan(*(x[:0] for x in inputs))
    assert y.shape == (0, 5, 1, 4)
    assert final.shape == (0, 1, 4, 4)


def test_what_the_kernels_do_not_know_is_said():
    def ask(dtype, k, p, other=None):
        write = torch.zeros(1, 1, 1, k, dtype=dtype)
        return is_supported(write, torch.zeros(1, 1, 1, p, dtype=other or dtype), write)

    assert ask(torch.bfloat16, 64, 32)
    assert ask(torch.float32, 128, 64)
    assert not ask(torch.float64, 64, 32)
    assert not ask(torch.bfloat16, 64, 32, torch.float32)
    assert not ask(torch.bfloat16, 256, 64)


def test_the_operators_keep_the_rules_of_torch(device):
    (decay, write, value, read, initial), _ = make(2, 20, 2, 4, 6, device)
    resets = torch.zeros(2, 20, dtype=torch.bool, device=device)
    torch.library.opcheck(torch.ops.precog.outer_scan.default, (decay, write, value, read, initial, resets, 16, True))
    fixed = [x.detach() for x in (decay, write, value, read)]
    for start, mask in ((initial.detach(), resets), (None, None)):
        forward, backward = torch.ops.precog.outer_scan.default, torch.ops.precog.outer_scan_backward.default
        y, final, entering = forward(*fixed, start, mask, 16, True)
        for operator, arguments in (
            (forward, (*fixed, start, mask, 16, False)),
            (backward, (*fixed, start, mask, entering, y, final, 16)),
        ):
            torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.gpu
@pytest.mark.parametrize(("rows", "length"), [(64, 256), (512, 48), (3, 1001)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_at_the_sizes_of_training(rows, length, dtype):
    device = torch.device("cuda")
    inputs, weights = make(rows, length, 4, 64, 32, device, dtype, rate=0.1)
    resets = torch.rand(rows, length, device=device) < 0.01
    expected = evaluate(chunked_outer_scan, inputs, weights, True, resets, torch.float64)
    actual = evaluate(triton_outer_scan, inputs, weights, True, resets)
    compare(actual, expected, 2e-2 if dtype == torch.bfloat16 else 2e-5)


@pytest.mark.gpu
def test_a_compiled_function_holds_the_scan_as_one_operator():
    device = torch.device("cuda")
    inputs, weights = make(4, 100, 4, 64, 32, device, torch.bfloat16)

    def twice(*arguments):
        y, final = triton_outer_scan(*arguments)
        return y * 2, final

    compiled = torch.compile(twice, fullgraph=True, dynamic=False)
    compare(evaluate(compiled, inputs, weights, True, None), evaluate(twice, inputs, weights, True, None), 1e-6)
