"""Adapters: nothing changes at step 0, only A and B learn, merging computes the same, files refuse strangers."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from precog.backbones.registry import load_backbone, load_network, model_config
from precog.backbones.tenns.adapter import AdapterCard, apply_adapter, base_fingerprint, save_adapter
from precog.backbones.tenns.checkpoint import load_model, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.lora import LoraLinear, LoraSettings, add_lora, apply_tensors, lora_tensors
from precog.backbones.tenns.model import TennsModel, build
from precog.backbones.tenns.step import model_step
from precog.errors import ForeignStateError, ModelError, StorageError
from precog.text.tokenizer import load_mistral_tokenizer

TOKENS = torch.tensor([[1, 300, 400, 1, 500, 600, 700]])
PRESETS = ("tiny", "tiny-outer")


def small(preset: str, seed: int = 0) -> TennsModel:
    return build(TennsConfig.preset(preset), seed)


def logits(model: TennsModel) -> torch.Tensor:
    with torch.no_grad():
        return model.logits(model.eval()(TOKENS).hidden)


def stirred(model: TennsModel) -> TennsModel:
    """As after some steps: B is no longer zero."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, LoraLinear):
                layer.up.copy_(0.1 * torch.randn(layer.up.shape, generator=generator))
    return model


@pytest.mark.parametrize("preset", PRESETS)
def test_before_the_first_step_an_adapted_model_is_its_base_bit_for_bit(preset: str) -> None:
    expected = logits(small(preset))
    adapted = add_lora(small(preset), LoraSettings(rank=4))
    assert torch.equal(logits(adapted), expected)


@pytest.mark.parametrize("preset", PRESETS)
def test_only_the_adapter_learns(preset: str) -> None:
    model = stirred(add_lora(small(preset), LoraSettings(rank=4)))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=1.0)
    hidden = model.train()(TOKENS).hidden
    model.logits(hidden).logsumexp(-1).sum().backward()
    optimiser.step()
    changed = {name for name, weight in model.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == set(lora_tensors(model))
    assert len(changed) == 2 * sum(isinstance(layer, LoraLinear) for layer in model.modules()) > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_gradients_are_those_of_the_written_out_matrix(preset: str) -> None:
    settings = LoraSettings(rank=3, alpha=6.0, targets=("mix",))
    model = stirred(add_lora(small(preset), settings)).double()
    layer = model.get_submodule("blocks.1.mix")
    assert isinstance(layer, LoraLinear)
    model(TOKENS, dtype=torch.float64).hidden.square().sum().backward()
    merged = apply_tensors(small(preset), settings, lora_tensors(model)).double().requires_grad_(False)
    plain = merged.get_submodule("blocks.1.mix")
    plain.weight.data = layer.weight.double() + 2.0 * layer.up.detach().double() @ layer.down.detach().double()
    plain.weight.requires_grad_(True)
    other = merged.get_submodule("blocks.0.mix"), merged.get_submodule("blocks.2.mix")
    reference = stirred(add_lora(small(preset), settings)).double()
    for number, changed in zip((0, 2), other, strict=True):
        kept = reference.get_submodule(f"blocks.{number}.mix")
        changed.weight.data = kept.weight + 2.0 * kept.up @ kept.down
    merged(TOKENS, dtype=torch.float64).hidden.square().sum().backward()
    whole = plain.weight.grad
    assert torch.allclose(layer.up.grad, 2.0 * whole @ layer.down.T, rtol=1e-9, atol=1e-12)
    assert torch.allclose(layer.down.grad, 2.0 * layer.up.T @ whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
def test_merging_computes_the_same_in_passes_and_in_steps(preset: str) -> None:
    settings = LoraSettings(rank=4, alpha=8.0)
    model = stirred(add_lora(small(preset), settings))
    expected = logits(model)
    config = model.config
    state = torch.randn(config.layers, 1, config.state_reals, generator=torch.Generator().manual_seed(1))
    tail = torch.zeros(config.layers, 1, config.kernel - 1, config.inner)
    with torch.no_grad():
        stepped = model_step(model, torch.tensor([1]), state, tail, torch.float32)
        assert (expected - logits(small(preset))).abs().max() > 1e-2
        merged = apply_tensors(small(preset), settings, lora_tensors(model))
        assert (logits(merged) - expected).abs().max() < 1e-4
        for got, wanted in zip(model_step(merged, torch.tensor([1]), state, tail, torch.float32), stepped, strict=True):
            assert (got - wanted).abs().max() < 1e-4


def test_dropout_changes_training_alone() -> None:
    model = stirred(add_lora(small("tiny"), LoraSettings(rank=4, dropout=0.5)))
    expected = logits(model)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert not torch.allclose(model.logits(model.train()(TOKENS).hidden), expected)
    assert torch.equal(logits(model), expected)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": 5000}, "rank"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"dropout": 1.0}, "dropout"),
        ({"targets": ()}, "no target"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        LoraSettings(**settings)


def test_targets() -> None:
    model = add_lora(small("tiny"), LoraSettings(rank=2, targets=("project_*",)))
    assert {name.split(".")[2] for name in lora_tensors(model)} == {"project_in", "project_out"}
    with pytest.raises(ModelError, match="the model lacks; given: query"):
        add_lora(small("tiny"), LoraSettings(targets=("mix", "query")))
    with pytest.raises(ModelError, match="adapter already"):
        add_lora(model, LoraSettings())


def saved(folder: Path, base: Path, *, seed: int = 0, **settings: object) -> TennsModel:
    network, card = load_network(base)
    fingerprint = base_fingerprint(card, network)
    chosen = LoraSettings(rank=4, **settings)
    model = stirred(add_lora(network, chosen, seed))
    save_adapter(
        folder, lora_tensors(model), chosen, name="adapted", base=str(base), base_fingerprint=fingerprint,
        decoding={"beam_width": 2}, notes={"steps": 3},
    )  # fmt: skip
    return model


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    save_model(folder, small("tiny-outer"), name="base", tokenizer_sha256=load_mistral_tokenizer().sha256)
    return folder


@pytest.mark.parametrize(
    ("matrices", "embedding"), [("fp32", "fp32"), ("bf16", "bf16"), ("int8", "int8"), ("int4:32", "int8")]
)
def test_a_saved_adapter_is_loaded_onto_bases_of_every_scheme(tmp_path: Path, matrices: str, embedding: str) -> None:
    base, folder = tmp_path / "base", tmp_path / "adapter"
    sha256 = load_mistral_tokenizer().sha256
    save_model(base, small("tiny"), name="base", tokenizer_sha256=sha256, matrices=matrices, embedding=embedding)
    model = saved(folder, base, alpha=8.0)
    network, card = load_network(folder)
    assert (logits(network) - logits(model)).abs().max() < 1e-4
    assert (card.name, card.decoding, card.notes) == ("adapted", {"beam_width": 2}, {"steps": 3})
    assert model_config(folder) == network.config


def test_states_of_base_and_adapted_model_are_not_taken_for_each_other(tmp_path: Path, base: Path) -> None:
    saved(tmp_path / "one", base)
    saved(tmp_path / "two", base, seed=1)
    models = [load_backbone(folder) for folder in (base, tmp_path / "one", tmp_path / "two")]
    assert len({model.fingerprint for model in models}) == 3
    assert load_backbone(tmp_path / "one").fingerprint == models[1].fingerprint
    state = models[0].encode_chunks([[300, 400]])[0]
    with pytest.raises(ForeignStateError) as refused:
        models[1].open([state])
    assert models[0].fingerprint[:12] in str(refused.value)
    assert models[1].fingerprint[:12] in str(refused.value)
    assert "precog reindex" in str(refused.value)


def test_an_adapter_may_stand_on_an_adapter(tmp_path: Path, base: Path) -> None:
    saved(tmp_path / "one", base)
    model = saved(tmp_path / "two", tmp_path / "one", seed=1)
    assert (logits(load_network(tmp_path / "two")[0]) - logits(model)).abs().max() < 1e-4


def test_an_adapter_that_stands_on_itself(tmp_path: Path, base: Path) -> None:
    saved(tmp_path / "one", base)
    saved(tmp_path / "two", tmp_path / "one")
    card = AdapterCard.from_json((tmp_path / "one" / "adapter.json").read_text())
    values = {**card.__dict__, "base": str(tmp_path / "two")}
    (tmp_path / "one" / "adapter.json").write_text(AdapterCard(**values).to_json())
    with pytest.raises(ModelError, match="too many adapters"):
        load_network(tmp_path / "two")


def test_another_base_is_refused_with_both_fingerprints(tmp_path: Path, base: Path) -> None:
    saved(tmp_path / "adapter", base)
    mine = load_backbone(base).fingerprint
    save_model(base, small("tiny-outer", seed=1), name="other", tokenizer_sha256=load_mistral_tokenizer().sha256)
    other = load_backbone(base).fingerprint
    with pytest.raises(ModelError, match="made for another model") as refused:
        load_backbone(tmp_path / "adapter")
    assert refused.value.given == f"other (fingerprint {other[:12]})"
    assert refused.value.expected == f"{base} (fingerprint {mine[:12]})"
    assert f"precog train merge {tmp_path / 'adapter'} --base DIR --out DIR" in str(refused.value)


def test_a_base_that_moved_along_is_found_and_one_that_is_gone_is_named(tmp_path: Path, base: Path) -> None:
    (tmp_path / "away").mkdir()
    saved(tmp_path / "away" / "adapter", base)
    moved = base.rename(tmp_path / "away" / "base")
    assert load_network(tmp_path / "away" / "adapter")[1].name == "adapted"
    moved.rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="base of this adapter is not here") as refused:
        load_network(tmp_path / "away" / "adapter")
    assert str(base) in str(refused.value)


def test_damage_is_noticed(tmp_path: Path, base: Path) -> None:
    folder = tmp_path / "adapter"
    saved(folder, base)
    weights, card = folder / "adapter.safetensors", folder / "adapter.json"
    raw, text = weights.read_bytes(), card.read_text()

    weights.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(ModelError, match="not those that were saved"):
        load_network(folder)
    weights.write_bytes(raw[:50])
    with pytest.raises(ModelError, match="damaged"):
        load_network(folder)
    weights.unlink()
    with pytest.raises(ModelError, match="damaged"):
        load_network(folder)
    weights.write_bytes(raw)

    values = json.loads(text)
    for broken, said in [
        ("{", "damaged"),
        ("[]", "no JSON object"),
        (json.dumps({**values, "rank": 8}), "changed after"),
        (json.dumps({**values, "rank": "4"}), "wrong type"),
        (json.dumps({**values, "more": 1}), "other keys"),
        (json.dumps({**values, "format": 2}), "unknown format"),
        (json.dumps({**values, "targets": [1]}), "no names"),
    ]:
        card.write_text(broken)
        with pytest.raises(ModelError, match=said):
            load_network(folder)


def test_tensors_that_do_not_fit(tmp_path: Path, base: Path) -> None:
    folder = tmp_path / "adapter"
    saved(folder, base)
    tensors = load_file(folder / "adapter.safetensors")
    name = next(iter(tensors))
    network, card = load_model(base)
    fingerprint = base_fingerprint(card, network)
    for changed, said in [
        ({key: value for key, value in tensors.items() if key != name}, "does not fit"),
        ({**tensors, "blocks.9.mix.up": tensors[name].clone()}, "does not fit"),
        ({**tensors, name: tensors[name][:2]}, "does not fit"),
        ({**tensors, name: tensors[name].half()}, "does not fit"),
        ({**tensors, name: tensors[name] / 0}, "not finite"),
    ]:
        how = LoraSettings(rank=4)
        save_adapter(folder, changed, how, name="a", base=str(base), base_fingerprint=fingerprint)
        with pytest.raises(ModelError, match=said):
            apply_adapter(folder, load_model(base)[0], card)


def test_a_full_disk_leaves_the_adapter_that_was_there(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "adapter"
    saved(folder, base)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("precog.backbones.tenns.adapter.save_file", full)
    with pytest.raises(StorageError, match="could not be written"):
        saved(folder, base, seed=1)
    monkeypatch.setattr("precog.backbones.tenns.adapter.save_file", save_file)
    assert load_network(folder)[1].name == "adapted"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "base"]
