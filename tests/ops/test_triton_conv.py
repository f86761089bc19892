"""Law 2 for the fused convolution: it equals the loop in values and gradients, and writes all of its outputs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from precog.ops import segment_conv_loop
from precog.ops import triton_conv as kernels
from precog.ops.conv import tapped_segment_conv
from precog.ops.triton_conv import is_supported, triton_segment_conv

NAMES = ("out", "d_v", "d_weight", "d_bias", "d_tail")


def make(rows, length, inner, taps, device, dtype=torch.float32, seed=0, share=0.2):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).to(device)

    wide = draw(rows, length, 2 * inner).to(dtype)
    inputs = [wide[..., :inner], draw(inner, taps) / taps**0.5, draw(inner), draw(rows, taps - 1, inner).to(dtype)]
    segments = (torch.rand(rows, length, generator=generator) < share).to(device).cumsum(1)
    return [x.requires_grad_() for x in inputs], segments, draw(rows, length, inner)


def evaluate(function, inputs, with_tail, segments, weights, cast=None):
    v, weight, bias, tail = (x if cast is None else x.to(cast) for x in inputs)
    out = function(v, weight, bias, tail if with_tail else None, segments)
    loss = (out.double() * weights).sum()
    return (out, *torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True))


def compare(actual, expected, tolerance):
    for name, a, e in zip(NAMES, actual, expected, strict=True):
        error = (a.double() - e.double()).abs().max().item() if a.numel() else 0.0
        assert error <= tolerance * max(1.0, e.double().abs().max().item() if e.numel() else 0.0), (name, error)


@pytest.fixture
def _short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several spans a row and several items a program, at lengths that an interpreter walks in no time."""
    monkeypatch.setattr(kernels, "SPAN", 8)
    monkeypatch.setattr(kernels, "MAX_GROUPS", 3)


@pytest.mark.usefixtures("_short_spans")
@settings(deadline=None, max_examples=8)
@given(
    length=st.integers(1, 20),
    taps=st.sampled_from([1, 2, 4, 5]),
    seed=st.integers(0, 10**6),
    with_tail=st.booleans(),
    with_segments=st.booleans(),
)
def test_equals_the_loop_in_values_and_gradients(device, length, taps, seed, with_tail, with_segments):
    inputs, segments, weights = make(2, length, 5, taps, device, seed=seed)
    mask = segments if with_segments else None
    expected = evaluate(segment_conv_loop, inputs, with_tail, mask, weights, torch.float64)
    torch.use_deterministic_algorithms(True)  # memory that nobody wrote reads as NaN
    try:
        actual = evaluate(triton_segment_conv, inputs, with_tail, mask, weights)
    finally:
        torch.use_deterministic_algorithms(False)
    compare(actual, expected, 1e-5)


@pytest.mark.usefixtures("_short_spans")
@pytest.mark.parametrize("at", [0, 1, 2, 6, 7, 8, 9, 15, 16])
def test_boundaries_at_and_beside_the_edges_of_spans(device, at):
    inputs, _, weights = make(1, 17, 130, 4, device)
    segments = (torch.arange(17, device=device) >= at).long()[None]
    expected = evaluate(tapped_segment_conv, inputs, True, segments, weights, torch.float64)
    actual = evaluate(triton_segment_conv, inputs, True, segments, weights)
    compare(actual, expected, 1e-5)
    seen = actual[4][0].abs().sum(-1) > 0  # token t sees the last 3 − t places of the tail, if no boundary is before
    assert seen.tolist() == [at > 0, at > 0, at > 0]


def test_bf16_is_closer_to_the_loop_than_the_torch_form(device):
    inputs, segments, weights = make(2, 40, 16, 4, device, torch.bfloat16)
    expected = evaluate(tapped_segment_conv, inputs, True, segments, weights, torch.float64)
    actual = evaluate(triton_segment_conv, inputs, True, segments, weights)
    assert [x.dtype for x in actual] == [
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
        torch.float32,
        torch.bfloat16,
    ]
    compare(actual, expected, 1e-2)
    torch_form = evaluate(tapped_segment_conv, inputs, True, segments, weights)
    for name, a, e, t in zip(NAMES, actual, expected, torch_form, strict=True):
        ours, torchs = ((x.double() - e.double()).square().mean().sqrt().item() for x in (a, t))
        assert ours <= 1.05 * torchs, name


def test_gradients_are_the_same_on_every_run(device):
    inputs, segments, weights = make(3, 50, 40, 4, device)
    first = evaluate(triton_segment_conv, inputs, True, segments, weights)
    again = evaluate(triton_segment_conv, inputs, True, segments, weights)
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)


def test_an_empty_batch_gives_empty_results(device):
    (v, weight, bias, tail), segments, _ = make(2, 5, 4, 4, device)
    out = triton_segment_conv(v[:0], weight, bias, tail[:0], segments[:0])
    assert out.shape == (0, 5, 4)
    (gradient,) = torch.autograd.grad(out.sum(), [weight])
    assert (gradient == 0).all()


def test_what_the_kernels_do_not_know_is_said():
    def ask(dtype, taps):
        return is_supported(torch.zeros(1, 1, 1, dtype=dtype), torch.zeros(1, taps))

    assert ask(torch.bfloat16, 4)
    assert ask(torch.float32, 8)
    assert not ask(torch.float64, 4)
    assert not ask(torch.float32, 9)


def test_the_operators_keep_the_rules_of_torch(device):
    (v, weight, bias, tail), segments, _ = make(2, 9, 4, 4, device)
    torch.library.opcheck(torch.ops.precog.segment_conv.default, (v, weight, bias, tail, segments))
    backward = torch.ops.precog.segment_conv_backward.default
    for end in (tail.detach(), None):
        arguments = (v.detach(), weight.detach(), bias.detach(), end, segments, v.detach().clone())
        torch.library.opcheck(backward, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "length", "inner"), [(64, 256, 1408), (512, 48, 1408), (8, 2048, 4096), (3, 1001, 88)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_at_the_sizes_of_training(rows, length, inner, dtype):
    inputs, segments, weights = make(rows, length, inner, 4, torch.device("cuda"), dtype, share=0.02)
    expected = evaluate(tapped_segment_conv, inputs, True, segments, weights, torch.float64)
    actual = evaluate(triton_segment_conv, inputs, True, segments, weights)
    compare(actual, expected, 1e-2 if dtype == torch.bfloat16 else 1e-5)
