"""The small transformer: that it is Llama's arithmetic, and what a moved cache costs."""

import pytest
import torch

from precog.evaluate.theorem.positions import SHIFTS, measure_rotary
from precog.evaluate.theorem.rotary import Cache, RotaryConfig, RotaryTransformer, rotated

EXACT = 1e-4
CONFIG = RotaryConfig()


def tokens(count, seed=0):
    return torch.randint(CONFIG.vocabulary, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="module")
def record():
    return measure_rotary(0)


@pytest.fixture(scope="module")
def llama():
    transformers = pytest.importorskip("transformers")
    model = RotaryTransformer(CONFIG, seed=1)
    shape = transformers.LlamaConfig(
        vocab_size=CONFIG.vocabulary,
        hidden_size=CONFIG.width,
        intermediate_size=CONFIG.hidden,
        num_hidden_layers=CONFIG.layers,
        num_attention_heads=CONFIG.heads,
        num_key_value_heads=CONFIG.shared,
        rms_norm_eps=CONFIG.epsilon,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": CONFIG.base},
    )
    theirs = transformers.LlamaForCausalLM(shape).eval()
    theirs.load_state_dict(model.weights, strict=True)
    return model, theirs


@pytest.mark.parametrize("start", [0, 7])
def test_it_is_llama(llama, start):
    model, theirs = llama
    ids = tokens(40)
    positions = torch.arange(start, start + 40)[None]
    with torch.no_grad():
        expected = theirs(torch.tensor([ids]), position_ids=positions, use_cache=True)
    logits, cache = model.read(ids, start)
    assert (logits - expected.logits[0]).abs().max() < 1e-5
    assert logits.abs().max() > 1
    for layer, theirs_of_layer in enumerate(expected.past_key_values.layers):
        assert (cache.keys[layer] - theirs_of_layer.keys[0]).abs().max() < 1e-5
        assert (cache.values[layer] - theirs_of_layer.values[0]).abs().max() < 1e-5


def test_another_rotation_is_not_llama(llama):
    model, theirs = llama
    other = RotaryTransformer(RotaryConfig(base=500.0), seed=1)
    other.weights = model.weights
    ids = tokens(40)
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits[0]
    assert (other.read(ids)[0] - expected).abs().max() > 0.01


def test_reading_on_from_a_cache_is_reading_everything():
    model, ids = RotaryTransformer(CONFIG, seed=2), tokens(30)
    _, cache = model.read(ids[:20])
    logits, after = model.read(ids[20:], 20, cache)
    whole, all_of_it = model.read(ids)
    assert (logits - whole[20:]).abs().max() < EXACT
    assert (after.keys - all_of_it.keys).abs().max() < EXACT
    assert after.num_tokens == 30


def test_rotations_add_up():
    keys = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.arange(5)
    twice = rotated(rotated(keys, positions, 100.0), torch.full((5,), 9), 100.0)
    assert torch.allclose(twice, rotated(keys, positions + 9, 100.0), atol=1e-12)
    assert torch.allclose(twice.norm(dim=-1), keys.norm(dim=-1), atol=1e-12)
    assert not torch.allclose(twice, rotated(keys, positions, 100.0), atol=0.1)


def test_what_a_moved_cache_costs(record):
    assert record["prefix"] <= EXACT
    assert [row["tokens"] for row in record["shifts"]] == list(SHIFTS)
    for row in record["shifts"]:
        assert row["alone_left"] > 0.1
        assert row["alone_turned"] <= EXACT
        assert min(row["left"], row["turned"]) > 0.1
        assert row["reread"] <= EXACT
        assert max(row["key_errors"][0], row["value_errors"][0]) <= 1e-5
        assert min(row["key_errors"][1:] + row["value_errors"][1:]) > 0.01
        assert len(row["key_errors"]) == CONFIG.layers


def test_keys_that_are_not_turned_are_found_out(monkeypatch):
    monkeypatch.setattr(Cache, "moved", lambda self, shift, base: self)
    row = measure_rotary(0)["shifts"][0]
    assert row["alone_turned"] > 0.1
    assert row["key_errors"][0] > 0.01


def test_a_cache_at_shifted_positions_is_no_prefix(monkeypatch):
    read = RotaryTransformer.read

    def shifted(self, tokens, start=0, cache=None):
        return read(self, tokens, start + (cache is not None), cache)

    monkeypatch.setattr(RotaryTransformer, "read", shifted)
    record = measure_rotary(0)
    assert record["prefix"] > 0.01
    assert all(row["reread"] > 0.01 for row in record["shifts"])


def test_a_single_layer_has_nothing_that_turning_does_not_repair():
    record = measure_rotary(0, RotaryConfig(layers=1))
    assert all(row["turned"] <= EXACT < row["left"] for row in record["shifts"])
