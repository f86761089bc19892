"""Cross-entropy in pieces equals cross-entropy of whole logits, in value and gradients, and drops the logits."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precog.train.cross_entropy import IGNORED, linear_cross_entropy, whole_cross_entropy


def both(rows, pieces, seed, dtype=torch.float64, ignored=0.3, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 23, (rows,), generator=generator)
    targets[torch.rand(rows, generator=generator) < ignored] = IGNORED
    found = []
    for function in (
        lambda h, w: linear_cross_entropy(h, w, targets, pieces),
        lambda h, w: whole_cross_entropy(h, w, targets),
    ):
        generator.manual_seed(seed + 1)
        hidden = torch.randn(rows, 7, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        weight = torch.randn(23, 7, generator=generator, dtype=torch.float64)
        weight = weight.to(torch.float32 if dtype == torch.bfloat16 else dtype).requires_grad_()
        loss = function(hidden, weight)
        (scale * loss).backward()
        found.append((loss.detach(), hidden.grad, weight.grad))
    return found


@given(rows=st.integers(1, 40), pieces=st.integers(1, 48), seed=st.integers(0, 99))
def test_pieces_equal_the_whole(rows, pieces, seed):
    ours, whole = both(rows, pieces, seed, scale=0.37)
    for mine, theirs in zip(ours, whole, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_other_dtypes(dtype, tolerance):
    ours, whole = both(64, 16, 5, dtype)
    assert ours[0].dtype == torch.float32
    for mine, theirs in zip(ours, whole, strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def test_rows_that_do_not_count_have_no_gradient():
    (loss, by_hidden, by_weight), _ = both(9, 4, 1, ignored=1.0)
    assert loss == 0
    assert not by_hidden.any()
    assert not by_weight.any()


def test_without_gradients_none_is_kept():
    with torch.no_grad():
        loss = linear_cross_entropy(torch.randn(5, 7), torch.randn(23, 7), torch.arange(5), 2)
    assert not loss.requires_grad
    assert torch.isfinite(loss)


@pytest.mark.gpu
def test_the_logits_never_exist_as_a_whole():
    device = torch.device("cuda")
    hidden = torch.randn(16384, 1024, device=device, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(32000, 1024, device=device, requires_grad=True)
    targets = torch.randint(0, 32000, (16384,), device=device)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for compiled in (False, True):
        linear_cross_entropy(hidden, weight, targets, compiled=compiled).backward()
    logits_bytes = 16384 * 32000 * 4
    assert torch.cuda.max_memory_allocated() - before < 0.75 * logits_bytes
    first, second = (linear_cross_entropy(hidden, weight, targets, compiled=c) for c in (False, True))
    torch.testing.assert_close(first, second, rtol=1e-4, atol=0)
