"""RWKV-4: reading on from any row equals the library's own pass, and means of states are means of what they are."""

import copy
from functools import partial

import pytest
import torch
from runtime_laws import BOUND, RuntimeLaws, empty, goes_through_a_store, read, spec_of, text
from tiny_folders import VOCABULARY
from transformers import RwkvConfig, RwkvForCausalLM

from precog.backbones.huggingface.rwkv import NOTHING, RwkvRuntime, weighted_values
from precog.state.blend import blend

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 4, "context_length": 256}
VARIANTS: dict[str, dict[str, object]] = {
    "plain": {"rescale_every": 0},
    "rescaled, wider inside": {"rescale_every": 2, "attention_hidden_size": 48, "intermediate_size": 80},
}


def tiny_rwkv(*, seed: int = 0, **changed: object) -> RwkvForCausalLM:
    """An RWKV-4 whose states matter."""
    torch.manual_seed(seed)
    model = RwkvForCausalLM(RwkvConfig(**{**SIZES, **changed})).eval()
    for weight in model.parameters():
        weight.data.add_(0.2 * torch.randn_like(weight))
    return model


def runtime_of(model: RwkvForCausalLM) -> RwkvRuntime:
    return RwkvRuntime(model, model.config)


RUNTIMES = {name: runtime_of(tiny_rwkv(**changed)) for name, changed in VARIANTS.items()}


class TestLaws(RuntimeLaws):
    @pytest.fixture(params=VARIANTS)
    def runtime(self, request) -> RwkvRuntime:
        return RUNTIMES[request.param]


def loop(key, value, decay, first, num, den):
    """Sums as they are, in FP64, one token at a time."""
    outputs = []
    for k, v in zip(key.unbind(1), value.unbind(1), strict=True):
        outputs.append((num + (first + k).exp() * v) / (den + (first + k).exp()))
        num, den = decay.exp() * num + k.exp() * v, decay.exp() * den + k.exp()
    return torch.stack(outputs, dim=1), num, den


@pytest.mark.parametrize("length", [1, 2, 7, 64, 100])
def test_the_scan_equals_the_loop(length):
    generator = torch.Generator().manual_seed(length)
    key, value = torch.randn(2, 2, length, 6, generator=generator, dtype=torch.float64)
    decay, first = -torch.rand(6, generator=generator).double(), torch.randn(6, generator=generator).double()
    num, den = torch.randn(2, 6, generator=generator).double(), torch.rand(2, 6, generator=generator).double() + 0.1
    top = torch.randn(2, 6, generator=generator).double()
    output, sums = weighted_values(key, value, decay, first, num, den, top)
    expected, total, weight = loop(key, value, decay, first, num * top.exp(), den * top.exp())
    assert (output - expected).abs().max() < 1e-12
    assert (sums[0] * sums[2].exp() - total).abs().max() < 1e-10
    assert (sums[1] * sums[2].exp() - weight).abs().max() < 1e-10


@pytest.mark.parametrize("height", [-1e4, -300.0, 300.0, 1e4])
def test_extreme_scales_do_not_overflow(height):
    key = torch.full((1, 5, 3), height) + torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5])[None, :, None]
    value = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(0))
    decay, first = torch.full((3,), -0.5), torch.full((3,), 0.3)
    zero = torch.zeros(1, 3)
    output, sums = weighted_values(key, value, decay, first, zero, zero, torch.full((1, 3), NOTHING))
    low, lows = weighted_values(key - height, value, decay, first, zero, zero, zero)
    assert output.isfinite().all()
    assert all(part.isfinite().all() for part in sums)
    assert (output - low).abs().max() < 1e-3  # the height cancels; FP32 has 1e-3 left of it at 1e4
    assert (sums[2] - lows[2] - height).abs().max() < 2e-3


def test_rescaling_that_the_library_did_already_is_undone():
    model = tiny_rwkv(rescale_every=2)
    plain = copy.deepcopy(model)
    with torch.no_grad():
        model(torch.tensor([[1, 2]]), use_cache=False)
    assert model.rwkv.layers_are_rescaled
    runtime, untouched = runtime_of(model), runtime_of(plain)
    ids = text(runtime, 30)
    assert torch.equal(read(runtime, ids, empty(runtime))[0], read(untouched, ids, empty(untouched))[0])
    assert (runtime.one_pass(ids) - untouched.one_pass(ids)).abs().max() <= BOUND


def test_a_mean_of_states_is_the_mean_of_what_they_stand_for():
    runtime = RUNTIMES["plain"]
    spec, width = spec_of(runtime), SIZES["hidden_size"]
    members = torch.cat([read(runtime, text(runtime, n, n), empty(runtime))[1] for n in (40, 13)], dim=1)
    weights = (0.4, 0.6)
    made = blend(members, weights, spec)
    factors = torch.tensor(weights, dtype=torch.float64)[None, :, None]

    def stands_for(rows):
        num, den, top = rows[..., 2 * width :].double().split(width, dim=-1)
        return torch.stack((num * top.exp(), den * top.exp()))

    expected = (stands_for(members) * factors).sum(2)
    assert ((stands_for(made[:, None])[:, :, 0] - expected).abs() <= 1e-6 * expected.abs().amax()).all()
    assert torch.equal(made[:, : 2 * width], members[:, 1, : 2 * width])  # the token shift follows the dominant one

    naive = (members * factors.float()).sum(1)
    naive[:, : 2 * width] = made[:, : 2 * width]
    question = text(runtime, 5, 99)
    ours, _ = read(runtime, question, made[:, None], 53)
    theirs, _ = read(runtime, question, naive[:, None], 53)
    assert (ours - theirs).abs().max() > 0.01


def test_a_mean_of_very_different_scales_is_finite_and_follows_the_larger():
    runtime = RUNTIMES["plain"]
    width = SIZES["hidden_size"]
    _, rows = read(runtime, text(runtime, 20), empty(runtime))
    high, low = rows.clone(), rows.clone()
    high[..., -width:] += 500.0
    low[..., -width:] -= 500.0
    low[..., 2 * width : 3 * width] *= -3
    made = blend(torch.cat((low, high), dim=1), (0.5, 0.5), spec_of(runtime))
    assert made.isfinite().all()
    assert torch.equal(made[:, -width:], high[:, 0, -width:])
    assert torch.equal(made[:, 2 * width : 4 * width], high[:, 0, 2 * width : 4 * width] / 2)
    alone = blend(torch.cat((empty(runtime), rows), dim=1), (0.5, 0.5), spec_of(runtime))
    assert torch.equal(alone[:, 2 * width : 4 * width], rows[:, 0, 2 * width : 4 * width] / 2)


def test_bfloat16_stays_near_its_own_judge():
    runtime = runtime_of(tiny_rwkv(rescale_every=0).bfloat16())
    ids = text(runtime, 40)
    judge = runtime.one_pass(ids).float()
    _, rows = read(runtime, ids[:13], empty(runtime))
    assert rows.dtype == torch.float32
    many, _ = read(runtime, ids[13:], rows, 13)
    assert (many[0] - judge[13:]).abs().max() <= judge.abs().max() / 8


def test_a_state_of_the_published_169m_is_as_large_as_it_should_be():
    config = RwkvConfig(hidden_size=768, num_hidden_layers=12)
    with torch.device("meta"):
        shape = RwkvRuntime(RwkvForCausalLM(config).eval(), config).shape
    assert (shape.layers, shape.reals) == (12, 5 * 768)
    assert 4 * shape.layers * shape.reals == 184_320


def test_states_go_through_a_store_bit_by_bit_and_belong_to_one_model(folder_of):
    goes_through_a_store(folder_of, partial(tiny_rwkv, rescale_every=2))
