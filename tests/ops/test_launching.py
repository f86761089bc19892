"""Kernels are launched on the device of their tensors, wherever the thread stands."""

from contextlib import contextmanager

import pytest
import torch

pytest.importorskip("triton")

from precog.ops.triton_conv import triton_segment_conv
from precog.ops.triton_diagonal import launch_scan, selective_scan_op
from precog.ops.triton_outer import triton_outer_scan


def convolved(device):
    return triton_segment_conv(*(torch.ones(shape, device=device) for shape in ((1, 4, 8), (8, 2), (8,))))


def outer(device):
    sizes = (1, 4, 1), (1, 4, 1, 16), (1, 4, 1, 16), (1, 4, 1, 16)
    return triton_outer_scan(*(-torch.ones(shape, device=device) for shape in sizes))[0]


def diagonal(device, scan=launch_scan):
    sizes = (1, 4, 16), (1, 4, 16), (1, 4, 1), (8,)
    v, beta, dt, real = (torch.ones(shape, device=device) for shape in sizes)
    return scan(v, beta, dt, -real, None, None, None)[0]


def traced_diagonal(device):
    return diagonal(device, selective_scan_op)


WORKS = [convolved, outer, diagonal, traced_diagonal]


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("grad", [False, True])
def test_a_kernel_is_launched_on_the_device_of_its_tensors(device, monkeypatch, work, grad):
    entered = []

    @contextmanager
    def device_of(tensor):
        entered.append(tensor.device.type)
        yield

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    with torch.set_grad_enabled(grad):
        work(device)
    assert entered == [torch.device(device).type]


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second GPU")
@pytest.mark.parametrize("work", WORKS)
def test_the_second_device_computes_what_the_first_does(work):
    with torch.no_grad():
        assert work("cuda:1").cpu().equal(work("cuda:0").cpu())
