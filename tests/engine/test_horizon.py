"""A horizon is known in closed form where decays are constant, and nil where a state is wiped out."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.gates import Gates
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel, build
from precog.engine.gate_memory import Quantiles, gate_horizons, gate_memory
from precog.engine.horizon import LEAST_SHARE, HorizonSettings, measure_horizon, propose_chunk_tokens
from precog.engine.influence import DISTANCES, Influence, influence, influence_horizon
from precog.engine.probes import make_probes
from precog.errors import InputError, ModelError, UsageError
from precog.state import StateBatch
from precog.text.sample import sample_text
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
TEXT = TOKENIZER.encode(sample_text()[:1600])
SMALL = HorizonSettings(samples=3, longest_distance=64)


def constant(log_memory: float, preset: str = "tiny") -> TennsModel:
    """An LTI model whose coordinates lose ``log_memory`` · (g + 1) · (k + 1) at every token."""
    network = build(dataclasses.replace(TennsConfig.preset(preset), selective=False))
    for block in network.blocks:
        groups, modes = block.config.groups, block.config.modes_per_group
        with torch.no_grad():
            steps = log_memory * (1 + torch.arange(groups))
            block.dt_bias.copy_(torch.log(torch.expm1(steps)))
            rates = (1 + torch.arange(modes)).repeat(groups)
            block.alpha.copy_(torch.log(torch.expm1(rates)))
    return network


def test_constant_decays_have_the_horizon_of_the_closed_form() -> None:
    network = constant(1 / 128)
    config = network.config
    gates = TennsBackbone.wrap(network, TOKENIZER).gates([1, *TEXT[:300]])
    losses = np.outer(1 + np.arange(config.groups), 1 + np.arange(config.modes_per_group)).ravel() / 128
    assert (1 / losses).max() < 151 < math.log(100) / losses.min()  # some 1 % horizons reach beyond the text
    for share in (math.exp(-1), 0.01):
        horizons, beyond = gate_horizons(gates, share)
        assert len(horizons) == config.layers
        for found in horizons:
            expected = np.broadcast_to((-math.log(share) / losses)[:, None], found.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-3)
        assert (beyond > 0) == (share == 0.01)
    memory = gate_memory(gates)
    assert memory.median_tokens == pytest.approx(np.median(1 / losses), rel=1e-3)
    for layer in memory.layers:
        assert layer.tokens.q10 == pytest.approx(np.quantile(1 / losses, 0.1), rel=1e-3)
        assert layer.to_one_percent.q90 == pytest.approx(math.log(100) * np.quantile(1 / losses, 0.9), rel=1e-3)


@given(
    st.lists(st.floats(1e-3, 1.0), min_size=2, max_size=40),
    st.floats(-3.0, -0.05),
    st.floats(0.05, 0.95),
)
def test_a_horizon_is_where_the_product_of_the_decays_is_the_share(
    steps: list[float], rate: float, share: float
) -> None:
    gates = Gates(torch.tensor(steps, dtype=torch.float64)[None, :, None], torch.tensor([[rate]], dtype=torch.float64))
    [found], beyond = gate_horizons(gates, share)
    ends = np.unique(np.linspace(-(-len(steps) // 2), len(steps), 64).astype(int))
    assert found.shape == (1, len(ends))
    num_beyond = 0
    for end, horizon in zip(ends, found[0], strict=True):
        product, tokens = 1.0, 0
        while tokens < end and product * math.exp(steps[end - 1 - tokens] * rate) > share:  # the loop that defines it
            product *= math.exp(steps[end - 1 - tokens] * rate)
            tokens += 1
        if tokens == end:
            num_beyond += 1
            assert horizon >= end - 1e-9
        else:
            assert tokens - 1e-6 <= horizon <= tokens + 1 + 1e-6
    assert beyond == pytest.approx(num_beyond / len(ends), abs=1.5 / len(ends))


class Forgetful(TennsBackbone):
    """A model whose state is multiplied by zero whenever it reads on."""

    def read(self, batch: StateBatch, tokens: Int64[Tensor, "B T"]) -> tuple[StateBatch, Float[Tensor, "B d"]]:
        return super().read(dataclasses.replace(batch, recurrent=torch.zeros_like(batch.recurrent)), tokens)


def measured(backbone: TennsBackbone, distance: int = 64, samples: int = 3, seed: int = 0) -> tuple[Influence, ...]:
    return influence(backbone, TEXT, num_samples=samples, longest_distance=distance, seed=seed)


def test_a_state_multiplied_by_zero_has_no_influence() -> None:
    network = build(TennsConfig.preset("tiny-outer"))
    card = TennsBackbone.wrap(network, TOKENIZER).card
    rows = measured(Forgetful(network, card, TOKENIZER))
    assert all(row.share == Quantiles(0.0, 0.0, 0.0) for row in rows)
    assert propose_chunk_tokens(rows, 256) == 64
    assert influence_horizon(rows) is None


def test_a_model_of_huge_decay_forgets_beyond_its_window() -> None:
    network = build(TennsConfig.preset("tiny-outer"))
    with torch.no_grad():
        for block in network.blocks:
            block.alpha.fill_(200.0)  # exp(Δ·Re λ) is below FP32's smallest number at Δ = 1
            block.dt_bias.fill_(20.0)
            block.dt_weight.zero_()
    rows = measured(TennsBackbone.wrap(network, TOKENIZER))
    reach = network.config.layers * (network.config.kernel - 1)
    assert all(row.share.q90 == 0 for row in rows if row.distance > reach)
    gates = TennsBackbone.wrap(network, TOKENIZER).gates([1, *TEXT[:64]])
    assert gate_memory(gates).layers[0].tokens.q90 < 0.01


def test_slower_decay_has_more_influence() -> None:
    curves = [measured(TennsBackbone.wrap(constant(loss), TOKENIZER)) for loss in (1 / 2048, 1 / 32)]
    slow, fast = ([row.share.q50 for row in rows] for rows in curves)
    assert slow[0] == fast[0] == 1
    assert all(a > b for a, b in zip(slow[3:], fast[3:], strict=True))


@pytest.mark.parametrize("preset", ["tiny", "tiny-outer"])
def test_the_curve_equals_reading_everything_anew_for_every_distance(preset: str) -> None:
    backbone = TennsBackbone.random(preset, TOKENIZER)
    rows = measured(backbone, samples=2)
    probes = make_probes(backbone, 2, 0)
    starts = np.random.default_rng(0).integers(0, len(TEXT) - 64 + 1, 2)
    changes = []
    for row in rows:
        change, right = [], 0
        for probe, start in zip(probes, starts, strict=True):
            between = TEXT[start : start + row.distance]
            one, other = (backbone.prefill([*fact, *between, *probe.question])[1] for fact in probe.facts)
            change.append(float((one - other).abs().max()))
            mine, yours = probe.answers
            right += int(one[mine] > one[yours]) + int(other[yours] > other[mine])
        changes.append(change)
        share = np.array(change) / np.array(changes[0])
        expected = np.quantile(share, (0.1, 0.5, 0.9))
        assert (row.share.q10, row.share.q50, row.share.q90) == pytest.approx(tuple(expected), abs=2e-3)
        assert row.recall == right / 4


def test_the_same_seed_measures_the_same() -> None:
    backbone = TennsBackbone.random("tiny-outer", TOKENIZER)
    first, again = (measure_horizon(backbone, TEXT, SMALL).to_json() for _ in range(2))
    assert first == again
    assert first != measure_horizon(backbone, TEXT, dataclasses.replace(SMALL, seed=1)).to_json()
    assert make_probes(backbone, 5, 3)[:2] == make_probes(backbone, 2, 3)


def test_probes_differ_in_a_name_only() -> None:
    backbone = TennsBackbone.random("tiny-outer", TOKENIZER)
    for probe in make_probes(backbone, 40, 0):
        one, other = (TOKENIZER.decode(fact[1:]) for fact in probe.facts)
        assert one != other
        assert probe.answers[0] != probe.answers[1]
        assert {probe.facts[0][0], probe.facts[1][0], probe.question[0]} == {1}
        same = set(one.split()) & set(other.split())
        assert len(same) >= 3, (one, other)


def test_progress_ends_at_its_total() -> None:
    told: list[tuple[int, int]] = []
    measure_horizon(
        TennsBackbone.random("tiny-outer", TOKENIZER), TEXT, SMALL, lambda done, total: told.append((done, total))
    )
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


class Ungated:
    """The protocol and nothing more: a model that shows no gates."""

    def __init__(self, inner: TennsBackbone) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        if name == "gates":
            raise AttributeError(name)
        return getattr(self._inner, name)


def test_a_model_without_gates_is_measured_by_influence_alone() -> None:
    backbone = TennsBackbone.random("tiny-outer", TOKENIZER)
    with_gates = measure_horizon(backbone, TEXT, SMALL)
    without = measure_horizon(Ungated(backbone), TEXT, SMALL)  # type: ignore[arg-type]
    assert without.gates is None
    assert without.influence == with_gates.influence
    report = without.to_json()
    assert (report["layers"], report["beyond_text"]) == ([], None)
    assert report["horizon_tokens"] == {"gates": None, "influence": with_gates.to_json()["horizon_tokens"]["influence"]}  # type: ignore[index]


def curve(shares: Sequence[float | int]) -> list[Influence]:
    return [Influence(d, Quantiles(s, s, s), 1.0) for d, s in zip(DISTANCES, map(float, shares), strict=False)]


@given(st.lists(st.floats(0.0, 1.2), min_size=1, max_size=len(DISTANCES)), st.integers(64, 4096))
def test_the_law_of_the_proposal(shares: list[float], trained_tokens: int) -> None:
    rows = curve([1.0, *shares][: len(DISTANCES)])
    proposed = propose_chunk_tokens(rows, trained_tokens)
    assert 64 <= proposed <= trained_tokens
    assert proposed in DISTANCES
    up_to = [row for row in rows if row.distance <= proposed]
    if proposed > 64:
        assert rows[-1].distance >= proposed
        assert all(row.share.q50 >= LEAST_SHARE for row in up_to)
    longer = next((row for row in rows if row.distance > proposed), None)
    if longer is not None and all(row.share.q50 >= LEAST_SHARE for row in (*up_to, longer)):
        assert longer.distance > trained_tokens  # nothing longer would do


def test_the_proposal_by_example() -> None:
    falling = curve([1, 1, 1, 1, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.49, 0.4])
    assert propose_chunk_tokens(falling, 4096) == 256
    assert propose_chunk_tokens(falling, 200) == 192
    assert propose_chunk_tokens(falling[:8], 4096) == 96
    assert propose_chunk_tokens(curve([1, 0.4, 1, 1, 1, 1, 1, 1]), 4096) == 64
    assert influence_horizon(curve([1, 1, 1, math.exp(-0.5), math.exp(-1.5)])) == pytest.approx(8 * 2**0.622, rel=1e-2)
    assert influence_horizon(curve([1.0, 0.9])) is None


def test_what_cannot_be_measured_is_one_clear_error() -> None:
    network = build(TennsConfig.preset("tiny-outer"))
    backbone = TennsBackbone.wrap(network, TOKENIZER)
    with pytest.raises(InputError, match="too short"):
        measure_horizon(backbone, TEXT[:63], SMALL)
    assert measure_horizon(backbone, TEXT[:64], HorizonSettings(samples=1)).influence[-1].distance == 64
    with pytest.raises(InputError, match="no text"):
        influence(backbone, [], num_samples=1, longest_distance=64, seed=0)
    for wrong in ({"samples": 0}, {"longest_distance": 63}, {"trained_tokens": 1 << 20}):
        with pytest.raises(UsageError, match="out of range"):
            HorizonSettings(**wrong)
    with torch.no_grad():
        network.norm.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        measure_horizon(backbone, TEXT, SMALL)
