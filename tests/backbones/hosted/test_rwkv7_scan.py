"""RWKV-7's recurrence in chunks against the loop over tokens, values and gradients."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from precog.backbones.rwkv7.model import SLOWEST
from precog.backbones.rwkv7.scan import wkv_chunked, wkv_loop


def inputs(batch, heads, length, size, seed, dtype=torch.float64, decay=1.0):
    generator = torch.Generator().manual_seed(seed)

    def normal():
        return torch.randn(batch, heads, length, size, generator=generator, dtype=dtype)

    direction = normalize(normal(), dim=-1)
    log_w = SLOWEST * torch.sigmoid(normal() + decay)
    state = torch.randn(batch, heads, size, size, generator=generator, dtype=dtype)
    return [normal(), log_w, normal(), normal(), -direction, direction * torch.sigmoid(normal()), state]


@settings(max_examples=30)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    length=st.integers(1, 70),
    size=st.sampled_from([1, 4, 16]),
    seed=st.integers(0, 99),
)
def test_chunks_are_the_loop(batch, heads, length, size, seed):
    given_ = inputs(batch, heads, length, size, seed)
    kept = [part.clone() for part in given_]
    found, state = wkv_chunked(*given_)
    expected, expected_state = wkv_loop(*given_)
    assert found.shape == expected.shape == (batch, heads, length, size)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(state, expected_state, rtol=1e-11, atol=1e-11)
    assert all(torch.equal(part, before) for part, before in zip(given_, kept, strict=True))


@pytest.mark.parametrize("length", [3, 16, 37])
def test_gradients_are_the_loop_s(length):
    given_ = inputs(2, 2, length, 4, 0)
    gradients = []
    for scan in (wkv_chunked, wkv_loop):
        leaves = [part.clone().requires_grad_() for part in given_]
        found, state = scan(*leaves)
        (found.sin().sum() + state.cos().sum()).backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("decay", [-20.0, 0.0, 20.0])
def test_the_fastest_and_the_slowest_decay_in_single_precision(decay):
    given_ = inputs(1, 2, 300, 16, 1, torch.float32, decay)
    expected, expected_state = wkv_loop(*(part.double() for part in given_))
    found, state = wkv_chunked(*given_)
    assert float((found - expected).abs().max()) <= 1e-5 * float(expected.abs().max())
    assert float((state - expected_state).abs().max()) <= 1e-5 * float(expected_state.abs().max())
