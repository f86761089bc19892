"""Every setting of the architecture: scan, step and loop say the same, and published models keep their name.

The loop here is written out from the equations, one token after another in FP64, without the code it judges.
"""

import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from precog.backbones.card import ModelCard, fingerprint
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.checkpoint import load_model, save_model
from precog.backbones.tenns.config import DT_MAX, DT_MIN, YOUNGER, TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import ModelError
from precog.state import codec_named
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
DIAGONAL = [
    {},
    {"readout": "question"},
    {"frequencies": "zero"},
    {"frequencies": "learned", "readout": "question"},
    {"dt": "mode"},
    {"dt": "mode", "frequencies": "learned"},
    {"state_norm": False},
    {"kernel": 1},
    {"dt_low": 1e-2, "dt_high": 0.9, "decay_rate": 1.0},
    {"dt": "mode", "selective": False},
]
OUTER = [
    {},
    {"keys": "raw"},
    {"first_read": "write"},
    {"state_norm": False},
    {"state_norm": False, "keys": "raw"},
    {"kernel": 1},
    {"dt_low": 1e-3, "dt_high": 1e-1, "decay_rate": 0.5},
]
VARIANTS = [("tiny", changes) for changes in DIAGONAL] + [("tiny-outer", changes) for changes in OUTER]
variants = pytest.mark.parametrize(("preset", "changes"), VARIANTS)


def config_of(preset, **changes):
    return TennsConfig.from_dict({**TennsConfig.preset(preset).to_dict(), **changes})


def tokens(count, seed=0):
    return np.random.default_rng(seed).integers(3, 32_000, count).tolist()


def silu(x):
    return x / (1 + torch.exp(-x))


def norm(x, weight, epsilon):
    return x / torch.sqrt((x * x).mean() + epsilon) * weight


def by_hand(block: TennsBlock, x):
    """One block over x [T, d] in FP64, from nothing: outputs [T, d] and the state after the last token."""
    c = block.config
    w = {name: tensor.double() for name, tensor in block.state_dict().items()}
    inputs, outputs = [], []
    state = torch.zeros(c.state_reals, dtype=torch.complex128)
    alpha = -torch.log1p(torch.exp(w["alpha"]))
    for row in x:
        v, z = (w["project_in.weight"] @ norm(row, w["norm.weight"], 1e-6)).split(c.inner)
        inputs.append(v)
        v = w["conv_bias"] + sum(w["conv_weight"][:, j] * inputs[-1 - j] for j in range(min(c.kernel, len(inputs))))
        v = silu(v)
        e = silu(w["bottleneck.weight"] @ v)
        raw = w["dt_weight"] @ e if c.selective else 0
        dt = functional.softplus(raw + w["dt_bias"]).clamp(DT_MIN, DT_MAX)
        beta = (w["write.weight"] @ e if c.selective else 0) + w["write.bias"]
        read = w["read.weight"] @ e + w["read.bias"] if "read.weight" in w else torch.ones_like(beta)
        if c.mixer == "diagonal":
            modes = c.groups * c.modes_per_group
            steps = dt if c.dt == "mode" else dt[:, None].expand(-1, c.modes_per_group).flatten()
            omega = {"pi": lambda: math.pi * torch.arange(c.modes_per_group).double(), "learned": lambda: w["omega"]}
            turn = omega[c.frequencies]().repeat(c.groups) if c.frequencies in omega else torch.zeros(modes).double()
            written = torch.complex(beta[:modes] * v[:modes], beta[modes:] * v[modes:])
            state = torch.exp(steps * torch.complex(alpha, turn)) * state[:modes] + steps * written
            shown = torch.cat((state.real, state.imag))
            if c.state_norm:
                shown = norm(shown, w["state_norm.weight"], 1e-6)
            mixed = shown * read
        else:
            beta, read = (y.view(c.heads, c.coefficients) for y in (beta, read))
            if c.keys == "unit":
                beta, read = (y / torch.sqrt((y * y).sum(-1, keepdim=True)) for y in (beta, read))
            else:
                beta, read = (y / math.sqrt(c.coefficients) for y in (beta, read))
            memory = state.real.reshape(c.heads, c.coefficients, c.channels)
            value = (w["value.weight"] @ v).view(c.heads, c.channels)
            memory = torch.exp(dt * alpha)[:, None, None] * memory
            memory = memory + torch.einsum("h,hk,hp->hkp", dt, beta, value)
            state = memory.flatten().to(torch.complex128)
            heads = torch.einsum("hk,hkp->hp", read, memory)
            if c.state_norm:
                heads = torch.stack([norm(head, w["state_norm.weight"], 1e-4) for head in heads])
            mixed = heads.flatten()
        y = w["mix.weight"] @ mixed + w["skip"] * v
        outputs.append(row + w["project_out.weight"] @ (y * silu(z)))
    after = torch.cat((state.real, state.imag)) if c.mixer == "diagonal" else state.real
    return torch.stack(outputs), after


@variants
def test_a_block_computes_its_equations(preset, changes):
    torch.manual_seed(0)
    block = TennsBlock(config_of(preset, **changes)).double()
    with torch.no_grad():
        for parameter in block.parameters():  # nothing may hide behind an initial value
            parameter += 0.1 * torch.randn_like(parameter)
    x = torch.randn(1, 70, block.config.width, dtype=torch.float64)  # longer than a chunk of the scan
    with torch.no_grad():
        actual, state, _, dt = block(x, None, None, None, None, None)
        expected, last = by_hand(block, x[0])
    assert dt.shape == (1, 70, block.config.decay_groups)
    torch.testing.assert_close(actual[0], expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state[0], last, rtol=1e-9, atol=1e-9)


@variants
def test_every_variant_steps_as_it_scans_and_goes_on_from_a_stored_state(preset, changes):
    network = build(config_of(preset, **changes))
    model = TennsBackbone.wrap(network, TOKENIZER)
    chunk, question = tokens(11), [1, *tokens(8, seed=1)]
    _, one_pass = model.prefill_logits(model.reading(chunk) + question)
    [state] = model.encode_chunks([chunk])
    codec = codec_named("fp32")
    stored = codec.decode(codec.encode(state, model.spec), model.spec, num_tokens=state.num_tokens)
    assert (model.prefill_logits(question, stored)[1] - one_pass[-len(question) :]).abs().max() <= 1e-4
    batch = model.open([stored])
    for position, token in enumerate(question):
        batch, hidden = model.step(batch, [token])
        assert (model.logits(hidden[0]) - one_pass[len(chunk) + 1 + position]).abs().max() <= 1e-4
    whole, _ = model.prefill(model.reading(chunk) + question)
    after = batch.row(0)
    torch.testing.assert_close(after.recurrent, whole.recurrent, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state.decay_time + after.decay_time, whole.decay_time, rtol=1e-4, atol=1e-4)
    live, _ = model.prefill(question[:3])
    split = model.prefill_logits(question[3:], live)[1]
    assert (split - model.prefill_logits(question)[1][3:]).abs().max() <= 1e-4


@variants
def test_every_parameter_of_every_variant_learns(preset, changes):
    network = build(config_of(preset, **{**changes, "layers": 1}))
    hidden = network(torch.tensor([[1, *tokens(12)]])).hidden
    hidden.square().mean(-1).add(1).log().sum().backward()
    idle = {name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().max() > 0}
    # a frozen Δ and β leave the maps that would have driven them idle
    frozen = {"blocks.0.bottleneck.weight", "blocks.0.dt_weight", "blocks.0.write.weight"}
    assert idle == (frozen if changes.get("selective") is False else set())


@pytest.mark.parametrize(
    ("preset", "changes"), [("tiny", {"dt": "mode"}), ("tiny-outer", {"keys": "raw", "kernel": 1})]
)
def test_a_variant_is_saved_and_loaded_and_has_a_fingerprint_of_its_own(preset, changes, tmp_path):
    network = build(config_of(preset, **changes))
    save_model(tmp_path / "m", network, name="variant", tokenizer_sha256=TOKENIZER.sha256)
    written = json.loads((tmp_path / "m" / "config.json").read_text())
    assert {name: written[name] for name in changes} == changes
    loaded, card = load_model(tmp_path / "m")
    assert loaded.config == network.config
    plain = config_of(preset)
    assert fingerprint(card, loaded.config.to_dict(), "once") != fingerprint(card, plain.to_dict(), "once")


FIRST_PUBLISHED = {
    "width": 768, "layers": 12, "inner": 1408, "mixer": "outer", "groups": 0, "modes_per_group": 8,
    "frequencies": "pi", "readout": "question", "state_norm": True, "heads": 4, "coefficients": 64, "channels": 32,
    "bottleneck": 256, "kernel": 4, "conv_boundary": "segment", "selective": True, "tied": True, "vocabulary": 32000,
}  # fmt: skip


def test_settings_added_later_leave_the_first_published_model_its_fingerprint(repository):
    config = TennsConfig.preset("base")
    assert config.to_dict() == FIRST_PUBLISHED
    assert list(config.to_dict()) == list(FIRST_PUBLISHED)
    shipped = json.loads((repository / "weights/tenns-base/precog_tenns_base/config.json").read_text())
    assert TennsConfig.from_dict(shipped).to_dict() == shipped
    card = ModelCard(name="n", tokenizer_sha256="t", weights_sha256="w")
    assert fingerprint(card, config.to_dict(), "once") == (
        "a949d4b9c7ec09e39fe78d5fafa984b3fe330addd6b1e3f306284cac455e7863"
    )


def test_a_younger_setting_is_written_where_it_is_not_at_its_default():
    values = {"dt_low": 0.01, "dt_high": 0.2, "decay_rate": 0.3, "keys": "raw", "first_read": "write"}
    config = config_of("tiny-outer", **values)
    assert {name: config.to_dict()[name] for name in values} == values
    assert set(values) | {"dt"} == YOUNGER
    assert TennsConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("preset", "changes", "message"),
    [
        ("tiny", {"dt": "head"}, "dt has no such value"),
        ("tiny", {"dt_low": 1}, "dt_low has no such value"),
        ("tiny", {"keys": "raw"}, "has no keys"),
        ("tiny", {"first_read": "write"}, "has no keys"),
        ("tiny-outer", {"dt": "mode"}, "one Δ per head"),
        ("tiny-outer", {"dt_low": 0.9}, "timescales are out of range"),
        ("tiny-outer", {"dt_low": 1e-6}, "timescales are out of range"),
        ("tiny-outer", {"dt_high": 1.5}, "timescales are out of range"),
        ("tiny-outer", {"decay_rate": -0.1}, "timescales are out of range"),
        ("tiny-outer", {"decay_rate": math.nan}, "timescales are out of range"),
        ("tiny-outer", {"kernel": 0}, "kernel is out of range"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(preset, changes, message):
    with pytest.raises(ModelError, match=message):
        config_of(preset, **changes)


@pytest.mark.parametrize(("preset", "low", "high"), [("tiny", 0.01, 0.9), ("tiny-outer", 1e-3, 1e-1)])
def test_timescales_start_where_they_are_told_to(preset, low, high):
    block = TennsBlock(config_of(preset, dt_low=low, dt_high=high, decay_rate=0.3))
    steps = functional.softplus(block.dt_bias)
    torch.testing.assert_close(steps[[0, -1]], torch.tensor([low, high]), rtol=1e-4, atol=0)
    torch.testing.assert_close(functional.softplus(block.alpha), torch.full_like(block.alpha, 0.3))


def test_a_read_map_that_starts_as_the_write_map_reads_where_it_writes():
    block = TennsBlock(config_of("tiny-outer", first_read="write"))
    assert block.read.weight.equal(block.write.weight)
    assert block.read.weight is not block.write.weight
