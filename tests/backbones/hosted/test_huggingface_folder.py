"""A folder of transformers: opened as a backbone, or refused in one line that says why."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_folders import TEXT, tiny_mamba, write_byte_fallback_tokenizer, write_byte_level_tokenizer

from precog.backbones.hosted.restore import restored
from precog.backbones.huggingface.opening import check_version, open_model, open_tokenizer
from precog.backbones.registry import load_backbone
from precog.backbones.template import Template
from precog.backbones.tiny import make_tiny
from precog.errors import ForeignStateError, ModelError, UsageError


def opened(folder: Path, **changed: object):
    values = {
        "encode_mode": "once",
        "device": torch.device("cpu"),
        "dtype": torch.float32,
        "template": Template(),
        **changed,
    }
    return open_model(folder, **values)


def configure(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    path = folder / "model.safetensors"
    tensors = change(dict(load_file(path)))
    save_file(tensors, path, metadata={"format": "pt"})


def refusal(folder: Path, expected: str) -> str:
    with pytest.raises(ModelError, match=expected) as caught:
        load_backbone(folder, device="cpu")
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_folder_becomes_a_backbone(mamba_folder):
    backbone = load_backbone(mamba_folder, device="cpu")
    assert backbone.card.name == "tiny-mamba"
    assert backbone.card.backbone == "huggingface"
    assert backbone.card.question_template == "\n\nQuestion: {question}\nAnswer:"
    assert backbone.opening == ()
    assert backbone.empty_state().num_tokens == 0
    assert restored(backbone).ok
    ids = backbone.tokenizer.encode(TEXT)
    (state,) = backbone.encode_chunks([ids])
    _, injected = backbone.prefill(backbone.tokenizer.encode("Who?"), state)
    _, whole = backbone.prefill([*ids, *backbone.tokenizer.encode("Who?")])
    assert (injected - whole).abs().max() <= 1e-4
    assert injected.shape == (backbone.tokenizer.vocab_size,)  # the model's vocabulary is padded


def test_a_text_that_opens_with_s_has_read_it(folder_of):
    backbone = load_backbone(folder_of(tiny_mamba(), "opens", write_byte_fallback_tokenizer), device="cpu")
    assert backbone.empty_state().num_tokens == 1
    _, scores = backbone.prefill([40])
    judge = backbone.runtime.one_pass(torch.tensor([1, 40]))[-1, : backbone.tokenizer.vocab_size]
    assert (scores - judge).abs().max() <= 1e-4


def test_templates_are_the_users_to_choose_and_decide_what_a_state_means(mamba_folder):
    plain = opened(mamba_folder)
    asked = opened(mamba_folder, template=Template(question="Q: {question} A:"))
    framed = opened(mamba_folder, template=Template(chunk="Text: {chunk}\n"))
    assert asked.card.question_template == "Q: {question} A:"
    assert asked.fingerprint == plain.fingerprint
    assert framed.fingerprint != plain.fingerprint
    assert opened(mamba_folder, encode_mode="twice").fingerprint != plain.fingerprint


def test_who_wrote_the_folder_is_no_part_of_the_fingerprint_and_what_a_state_means_is(mamba_folder):
    first = opened(mamba_folder).fingerprint
    configure(mamba_folder, transformers_version="5.0.0", dtype="bfloat16", architectures=["X"], _name_or_path="a/b")
    assert opened(mamba_folder).fingerprint == first
    configure(mamba_folder, layer_norm_epsilon=1e-3)
    assert opened(mamba_folder).fingerprint != first


def test_a_fine_tune_of_the_same_shape_is_another_model(mamba_folder):
    backbone = opened(mamba_folder)
    (state,) = backbone.encode_chunks([backbone.tokenizer.encode("Ada Moor")])

    def tune(tensors):
        tensors["backbone.layers.1.mixer.D"][3] += 1e-3
        return tensors

    rewrite(mamba_folder, tune)
    tuned = opened(mamba_folder)
    assert tuned.spec.reals_per_layer == backbone.spec.reals_per_layer
    with pytest.raises(ForeignStateError):
        tuned.prefill([5], state)


def test_another_tokenizer_makes_another_model(mamba_folder):
    backbone = opened(mamba_folder)
    (state,) = backbone.encode_chunks([backbone.tokenizer.encode("Ada Moor")])
    write_byte_level_tokenizer(mamba_folder, text="quite another text to learn other pieces from")
    with pytest.raises(ForeignStateError):
        opened(mamba_folder).prefill([5], state)
    write_byte_level_tokenizer(mamba_folder, size=500)
    rewrite(mamba_folder, lambda tensors: {k: v[:300] if "embed" in k else v for k, v in tensors.items()})
    configure(mamba_folder, vocab_size=300)
    refusal(mamba_folder, "tokenizer does not fit tiny-mamba; given: 3.. ids; expected: at most 300")


def test_weights_in_shards_are_read_and_a_lost_shard_is_named(folder_of, tmp_path):
    folder = folder_of(tiny_mamba(), "sharded")
    whole = opened(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    parts = {"a.safetensors": sorted(tensors)[:9], "b.safetensors": sorted(tensors)[9:]}
    for file, names in parts.items():
        save_file({name: tensors[name] for name in names}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, names in parts.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    sharded = opened(folder)
    assert torch.equal(sharded.prefill([7])[1], whole.prefill([7])[1])
    (folder / "b.safetensors").unlink()
    refusal(folder, r"weight files are missing; given: b\.safetensors")
    index["weight_map"]["x"] = "../elsewhere.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refusal(folder, "names no safetensors of this folder")


def test_missing_tensors_are_counted_and_named_and_tied_ones_are_not_missing(mamba_folder):
    assert not any("lm_head" in name for name in load_file(mamba_folder / "model.safetensors"))
    assert opened(mamba_folder).card.name == "tiny-mamba"
    rewrite(mamba_folder, lambda tensors: {k: v for k, v in tensors.items() if "layers.1.mixer" not in k})
    line = refusal(mamba_folder, "tensors are missing from .*tiny-mamba; given: backbone.layers.1.mixer.A_log")
    assert " and 6 more" in line
    assert line.startswith("9 tensors")


def test_a_tensor_of_another_shape_is_named(mamba_folder):
    rewrite(
        mamba_folder, lambda tensors: {k: v[:-1].clone() if k.endswith("0.mixer.D") else v for k, v in tensors.items()}
    )
    refusal(mamba_folder, "1 tensor is of another shape than config.json says in .*given: backbone.layers.0.mixer.D")


def test_tensors_nobody_needs_do_no_harm(mamba_folder):
    before = opened(mamba_folder).prefill([7])[1]
    rewrite(mamba_folder, lambda tensors: {**tensors, "optimizer.step": torch.zeros(1)})
    assert torch.equal(opened(mamba_folder).prefill([7])[1], before)


def test_damaged_weights_are_refused(mamba_folder):
    path = mamba_folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    refusal(mamba_folder, "a weight file cannot be read")
    path.unlink()
    refusal(mamba_folder, "has no weights")
    torch.save({}, mamba_folder / "pytorch_model.bin")
    refusal(mamba_folder, r"pickled weights can run code.*given: pytorch_model\.bin.*save_pretrained")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"model_type": "llama"}, "llama is a transformer: it has no recurrent state.*expected: bamba, falcon_h1"),
        ({"model_type": "gpt2"}, "gpt2 is a transformer"),
        ({"model_type": "kimi_linear"}, "not supported; given: kimi_linear"),
        ({"model_type": "clip"}, "not supported; given: clip"),
        ({"model_type": "my_mamba"}, "not supported; given: my_mamba; expected: .*mamba2"),
        ({"model_type": "mine", "auto_map": {"AutoConfig": "x.Y"}}, "mine needs code of its own, which is never run"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised by another library"),
        ({"hidden_size": "wide"}, "the model cannot be loaded"),
        ({"transformers_weights": "other.safetensors"}, "the weights are elsewhere; given: other.safetensors"),
        ({"hidden_act": "nonsense"}, "the model cannot be loaded: KeyError 'nonsense'"),
    ],
)
def test_configurations_that_cannot_be_used_are_refused(mamba_folder, values, expected):
    configure(mamba_folder, **values)
    refusal(mamba_folder, expected)


def test_code_in_a_folder_is_not_run(mamba_folder):
    (mamba_folder / "evil.py").write_text("open('ran', 'w')\nclass E: pass\n")
    names = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "evil.E")
    configure(mamba_folder, auto_map=names)
    assert opened(mamba_folder).card.name == "tiny-mamba"
    assert not Path("ran").exists()


def test_an_adapter_is_no_model(mamba_folder):
    (mamba_folder / "adapter_config.json").write_text("{}")
    refusal(mamba_folder, "holds an adapter")


@pytest.mark.parametrize("found", ["4.57.6", "5.14.1", "5.25.0", "6.0"])
def test_untested_releases_are_refused(found):
    with pytest.raises(
        ModelError, match=rf"given: {found}; expected: at least 5\.15, below 5\.25; pip install"
    ) as caught:
        check_version(found)
    assert "\n" not in str(caught.value)
    check_version("5.15.0")
    check_version("5.24.9.dev0")


def test_without_the_library_the_extra_is_named(mamba_folder, monkeypatch):
    def gone(name: str) -> str:
        from importlib.metadata import PackageNotFoundError

        raise PackageNotFoundError(name)

    monkeypatch.setattr("precog.backbones.huggingface.opening.version", gone)
    refusal(mamba_folder, r"needs the transformers library.*pip install 'precog-ssm\[hf\]'")


def test_a_library_that_does_not_start_is_told(mamba_folder, monkeypatch):
    def broken(name: str) -> None:
        raise ImportError("tokenizers<=0.23.0 is required,\nbut found 0.23.3")

    monkeypatch.setattr("precog.backbones.huggingface.opening.import_module", broken)
    refusal(mamba_folder, "does not start: tokenizers<=0.23.0 is required, but found 0.23.3; given: transformers 5")


def test_states_are_fp32_at_most(mamba_folder):
    with pytest.raises(UsageError, match="given: float64"):
        load_backbone(mamba_folder, device="cpu", dtype="float64")
    assert load_backbone(mamba_folder, device="cpu", dtype="bfloat16").encoding_dtype == "bfloat16"


def test_the_tokenizer_opens_without_the_weights(mamba_folder):
    assert open_tokenizer(mamba_folder).sha256 == opened(mamba_folder).card.tokenizer_sha256


def test_a_model_in_a_hub_cache_has_the_name_it_has_there(folder_of):
    folder = folder_of(tiny_mamba(), "models--some--mamba-hf/snapshots/0123abc")
    assert opened(folder).card.name == "some/mamba-hf"


@pytest.mark.parametrize("name", ["shard.bin", "config.json", "../other.safetensors"])
def test_shards_are_safetensors_of_the_folder_and_nothing_else(mamba_folder, name):
    tensors = load_file(mamba_folder / "model.safetensors")
    (mamba_folder / "model.safetensors").unlink()
    torch.save(tensors, mamba_folder / "shard.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, name)}
    (mamba_folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "weights_only" not in refusal(mamba_folder, "names no safetensors of this folder")


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float8_e4m3fn, torch.complex64])
def test_tensors_that_are_no_weights_are_not_cast(mamba_folder, dtype):
    name = "backbone.layers.0.mixer.in_proj.weight"
    rewrite(mamba_folder, lambda tensors: {**tensors, name: tensors[name].to(dtype)})
    refusal(mamba_folder, f"1 tensors are of a type that is no weight; given: {name}")


def test_an_id_beyond_all_reason_is_refused_before_room_is_made_for_it(mamba_folder):
    path = mamba_folder / "tokenizer.json"
    described = json.loads(path.read_text())
    vocabulary = described["model"]["vocab"]
    vocabulary[max(vocabulary, key=vocabulary.get)] = 4_000_000_000
    path.write_text(json.dumps(described))
    refusal(mamba_folder, "beyond all reason|cannot be read")


@pytest.mark.parametrize("values", [{"chunk_size": 0}, {"chunk_size": -1}, {"time_step_limit": []}])
def test_what_a_library_takes_and_cannot_compute_with_is_one_line(tmp_path, values):
    folder = make_tiny("mamba2", tmp_path / "m")
    configure(folder, **values)
    refusal(folder, "the model cannot be (run|loaded)")
