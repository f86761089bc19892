"""The fused selective scan at the sizes that models have, on a CUDA device."""

import pytest
import torch

pytest.importorskip("triton")

from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.config import TennsConfig
from precog.ops import selective_scan
from precog.ops.triton_diagonal import selective_scan_op

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def make(rows, length, modes, per_group, dtype, seed=0):
    generator = torch.Generator("cuda").manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, device="cuda")

    inputs = [
        draw(rows, length, 2 * modes).to(dtype),
        (1 + draw(rows, length, 2 * modes)).to(dtype),
        (torch.rand(rows, length, modes // per_group, generator=generator, device="cuda") * 4.6 - 6.9).exp(),
        -(0.3 * draw(modes)).exp(),
        torch.pi * torch.arange(per_group, device="cuda").repeat(modes // per_group),
        draw(rows, 2 * modes),
    ]
    return inputs, draw(rows, length, 2 * modes).to(dtype), draw(rows, 2 * modes)


def evaluate(inputs, rotating, resets, weight, final_weight, dtype=None):
    leaves = [x.detach().to(dtype or x.dtype).requires_grad_() for x in inputs]
    v, beta, dt, real, omega, initial = leaves
    states, final = selective_scan(v, beta, dt, real, omega if rotating else None, initial, resets)
    loss = (states.to(dt.dtype) * weight.to(dt.dtype)).sum() + (final * final_weight.to(dt.dtype)).sum()
    return [states, final, *torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)]


@pytest.mark.parametrize(
    ("rows", "length", "modes", "per_group"),
    [(8, 512, 2048, 8), (1, 8192, 2048, 8), (3, 1000, 384, 16), (2, 77, 40, 1)],
)
@pytest.mark.parametrize("rotating", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_equals_the_scan_in_double_precision(rows, length, modes, per_group, rotating, dtype):
    inputs, weight, final_weight = make(rows, length, modes, per_group, dtype)
    resets = torch.rand(rows, length, device="cuda") < 1 / 300
    found = evaluate(inputs, rotating, resets, weight, final_weight)
    expected = evaluate(inputs, rotating, resets, weight, final_weight, torch.float64)
    names = ("states", "final", "d_v", "d_beta", "d_dt", "d_real", "d_omega", "d_initial")
    for name, a, e in zip(names, found, expected, strict=True):
        limit = 2**-8 if dtype == torch.bfloat16 and name in ("states", "d_v", "d_beta") else 1e-4
        error = (a.double() - e).abs().max().item()
        assert error <= limit * max(1.0, e.abs().max().item()), (name, error)


def test_repeats_bit_for_bit():
    inputs, weight, final_weight = make(8, 2048, 512, 8, torch.bfloat16)
    once, again = (evaluate(inputs, True, None, weight, final_weight) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


def test_more_elements_than_32_bits_count():
    length, tail = 2**31 // 4096 + 1000, 1003
    inputs, _, _ = make(1, 1, 2048, 8, torch.bfloat16)
    v, beta = (torch.randn(1, length, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    dt = torch.rand(1, length, 256, device="cuda")
    real, omega, initial = inputs[3:]
    states, final, _ = selective_scan_op(v, beta, dt, real, omega, initial, None)
    cut = length - tail
    _, middle, _ = selective_scan_op(v[:, :cut], beta[:, :cut], dt[:, :cut], real, omega, initial, None)
    last, expected, _ = selective_scan_op(v[:, cut:], beta[:, cut:], dt[:, cut:], real, omega, middle, None)
    torch.testing.assert_close(final, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(states[:, cut:].float(), last.float(), rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("frequencies", ["pi", "zero", "learned"])
def test_a_block_compiles_without_a_break(frequencies):
    torch.manual_seed(0)
    config = TennsConfig(width=128, layers=1, inner=256, groups=16, frequencies=frequencies)
    block = TennsBlock(config).cuda()
    x = torch.randn(2, 100, 128, device="cuda", dtype=torch.bfloat16)
    state = torch.randn(2, 256, device="cuda")
    results = []
    for run in (block, torch.compile(block, fullgraph=True)):
        block.zero_grad()
        out, after, *_ = run(x, state, None, None, None, None)
        (out.float().square().mean() + after.square().mean()).backward()
        results.append([out.float(), after, *(p.grad for p in block.parameters())])
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager, rtol=0.05, atol=0.02 * eager.abs().max().item())
