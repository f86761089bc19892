"""Sums over segments: every one over its own terms."""

import torch

from precog.ops.segment import segment_sums


def test_every_entry_is_the_sum_of_its_segment():
    steps = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sums = segment_sums(steps)
    for t in range(7):
        for s in range(7):
            if s > t:
                assert (sums[..., t, s] == float("-inf")).all()
            else:
                assert torch.allclose(sums[..., t, s], steps[..., s + 1 : t + 1].sum(-1), atol=1e-12)


def test_short_segments_keep_their_digits_after_long_sums():
    steps = torch.full((64,), -10.0)
    steps[-1] = -0.001
    running = steps.cumsum(0)
    assert abs(float(running[-1] - running[-2]) + 0.001) > 1e-6  # what differences of one sum would give
    assert abs(float(segment_sums(steps)[-1, -2]) + 0.001) < 1e-9
    assert (segment_sums(steps).diagonal() == 0).all()
