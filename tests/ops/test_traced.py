"""Kernels that nobody differentiates are launched as they are: the same values, without torch's compiler."""

import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")

from precog.ops.traced import is_traced
from precog.ops.triton_conv import triton_segment_conv
from precog.ops.triton_diagonal import launch_scan, selective_scan_op
from precog.ops.triton_outer import triton_outer_scan

FIRST_PASS = """
import sys, torch
from precog.ops.triton_conv import triton_segment_conv
with torch.set_grad_enabled({grad}):
    triton_segment_conv(*(torch.ones(shape, device="{device}") for shape in ((1, 4, 8), (8, 2), (8,))))
print("torch._dynamo" in sys.modules)
"""


def both(function, *arguments):
    assert is_traced()
    traced = function(*arguments)
    with torch.no_grad():
        assert not is_traced()
        return traced, function(*arguments)


def drawn(device, *shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(device) for shape in shapes]


def test_a_convolution_is_the_same(device):
    v, weight, bias, tail = drawn(device, (2, 20, 32), (32, 4), (32,), (2, 3, 32))
    segments = torch.tensor([[1] * 20, [0] * 7 + [1] * 13], device=device)
    for given in ((tail, segments), (tail, None), (None, segments), (None, None)):
        traced, launched = both(triton_segment_conv, v, weight, bias, *given)
        assert launched.equal(traced)


def test_an_outer_scan_is_the_same(device):
    write, value, read, initial = drawn(device, (2, 20, 2, 16), (2, 20, 2, 16), (2, 20, 2, 16), (2, 2, 16, 16))
    (decay,) = drawn(device, (2, 20, 2))
    for given in (initial, None):
        traced, launched = both(triton_outer_scan, -decay.abs(), write, value, read, given)
        assert all(one.equal(other) for one, other in zip(launched, traced, strict=True))


def test_a_diagonal_scan_is_the_same(device):
    v, beta, dt, real, initial = drawn(device, (2, 20, 16), (2, 20, 16), (2, 20, 1), (8,), (2, 16))
    arguments = v, beta, dt.abs(), -real.abs(), None, initial, None
    traced, launched = selective_scan_op(*arguments), launch_scan(*arguments)
    assert all(one.equal(other) for one, other in zip(launched, traced, strict=True))


@pytest.mark.parametrize("grad", [False, True])
def test_without_gradients_the_first_pass_of_a_process_imports_no_compiler(device, grad):
    run = subprocess.run(
        [sys.executable, "-c", FIRST_PASS.format(grad=grad, device=device)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(grad)
