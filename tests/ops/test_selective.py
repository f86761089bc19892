"""Law 2 for the selective scan in torch: it equals the loop in values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import UsageError
from precog.ops import selective_loop, selective_scan


@settings(deadline=None, max_examples=30)
@given(
    length=st.integers(1, 70),
    per_group=st.sampled_from([1, 2, 8, 16]),
    seed=st.integers(0, 10**6),
    rotating=st.booleans(),
    initial=st.booleans(),
    resetting=st.booleans(),
)
def test_equals_the_loop_with_gradients(length, per_group, seed, rotating, initial, resetting):
    generator = torch.Generator().manual_seed(seed)
    modes = 2 * per_group

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs = [
        draw(2, length, 2 * modes),
        draw(2, length, 2 * modes),
        torch.rand(2, length, 2, generator=generator, dtype=torch.float64),
        -draw(modes).exp(),
        5 * draw(modes),
        draw(2, 2 * modes),
    ]
    inputs = [x.requires_grad_() for x in inputs]
    v, beta, dt, real, omega, start = inputs
    resets = torch.rand(2, length, generator=generator) < 0.2 if resetting else None
    weight, final_weight = draw(2, length, 2 * modes), draw(2, 2 * modes)
    results = []
    for function in (selective_loop, selective_scan):
        states, final = function(v, beta, dt, real, omega if rotating else None, start if initial else None, resets)
        loss = (states * weight).sum() + (final * final_weight).sum()
        results.append((states, final, *torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)))
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_states_take_the_dtype_of_what_is_written_and_the_final_one_that_of_the_steps():
    v, beta = (torch.randn(1, 5, 8).bfloat16() for _ in range(2))
    states, final = selective_scan(v, beta, torch.rand(1, 5, 2), -torch.rand(4), None)
    assert (states.dtype, final.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(states[:, -1], final.bfloat16())


@pytest.mark.parametrize(("reals", "groups"), [(8, 3), (10, 2), (8, 0)])
def test_sizes_that_contradict_each_other(reals, groups):
    v = torch.zeros(1, 2, reals)
    with pytest.raises(UsageError, match=f"N {reals}, M 4, G {groups}"):
        selective_scan(v, v, torch.zeros(1, 2, groups), torch.zeros(4), None)
