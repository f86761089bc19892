"""The convolution in torch equals the loop, in values and gradients, and its window stays inside its segment."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.ops import segment_conv, segment_conv_loop
from precog.ops.conv import tapped_segment_conv


def make(rows, length, inner, taps, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, length, inner), (inner, taps), (inner,), (rows, taps - 1, inner))
    inputs = [torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]
    segments = (torch.rand(rows, length, generator=generator) < 0.3).cumsum(1)
    return inputs, segments


def evaluate(function, inputs, with_tail, segments):
    v, weight, bias, tail = inputs
    out = function(v, weight, bias, tail if with_tail else None, segments)
    ramp = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).view(out.shape)
    return (out, *torch.autograd.grad((out * ramp).sum(), inputs, allow_unused=True, materialize_grads=True))


@settings(deadline=None, max_examples=30)
@given(
    length=st.integers(1, 12),
    taps=st.integers(1, 5),
    seed=st.integers(0, 10**6),
    with_tail=st.booleans(),
    with_segments=st.booleans(),
)
def test_torch_form_equals_the_loop(length, taps, seed, with_tail, with_segments):
    inputs, segments = make(2, length, 3, taps, seed)
    mask = segments if with_segments else None
    expected = evaluate(segment_conv_loop, inputs, with_tail, mask)
    for actual, value in zip(evaluate(tapped_segment_conv, inputs, with_tail, mask), expected, strict=True):
        torch.testing.assert_close(actual, value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", [segment_conv, segment_conv_loop])
def test_nothing_crosses_a_boundary(function):
    (v, weight, bias, tail), _ = make(1, 6, 3, 4, 0)
    segments = torch.tensor([[1, 1, 1, 2, 2, 2]])
    out = function(v, weight, bias, tail, segments)
    alone = function(v[:, 3:], weight, bias, None, None)
    torch.testing.assert_close(out[:, 3:], alone)
    torch.testing.assert_close(out[:, :3], function(v[:, :3], weight, bias, None, None))


def test_a_tail_makes_two_passes_one():
    (v, weight, bias, tail), _ = make(2, 9, 3, 4, 0)
    whole = segment_conv(v, weight, bias, tail)
    rest = segment_conv(v[:, 4:], weight, bias, v[:, 1:4])
    torch.testing.assert_close(rest, whole[:, 4:])


def test_the_result_has_the_dtype_of_the_inputs():
    (v, weight, bias, tail), segments = make(2, 9, 3, 4, 0, torch.float32)
    assert segment_conv(v.bfloat16(), weight, bias, tail, segments).dtype == torch.bfloat16
