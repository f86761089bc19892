"""Law 7 and the model folder: strict to read, atomic to write, small on disk."""

import contextlib
import dataclasses
import importlib.metadata
import json
import shutil
from hashlib import sha256

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from precog.backbones import registry
from precog.backbones.card import ModelCard
from precog.backbones.registry import choose_device, find_model, installed_models, load_backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.checkpoint import load_model, save_model, weights_digest
from precog.backbones.tenns.config import DT_MAX, DT_MIN, TennsConfig
from precog.backbones.tenns.model import TennsModel, build
from precog.backbones.tenns.quantise import SCHEMES, pack, unpack
from precog.errors import ForeignStateError, ModelError, UsageError
from precog.state import codec_named
from precog.text.tokenizer import MistralTokenizer, load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()
SMALL = TennsConfig.from_dict({**TennsConfig.preset("tiny-outer").to_dict(), "vocabulary": 32_000, "layers": 2})


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    save_model(folder, build(SMALL), name="small", tokenizer_sha256=TOKENIZER.sha256)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def edit(path, **changes):
    """Change a JSON file and make every checksum of the folder right again, so that other checks are reached."""
    values = json.loads(path.read_text())
    values.update(changes)
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
    card_path = path.parent / "precog.json"
    card = json.loads(card_path.read_text())
    card["config_sha256"] = sha256((path.parent / "config.json").read_bytes()).hexdigest()
    rest = {key: value for key, value in card.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    card_path.write_text(json.dumps({**rest, "checksum": sha256(text.encode()).hexdigest()}))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("precog.json", "{chunk}", "{chunk}!", "changed after it was saved"),
        ("precog.json", "###{question}", "##{question}", "changed after it was saved"),
        ("precog.json", '"decoding": {}', '"decoding": {"beam_width": 2}', "changed after it was saved"),
        ("precog.json", '"name": "small"', '"name": "other"', "changed after it was saved"),
        ("config.json", '"selective": true', '"selective":  true', "not the one that was saved"),
        ("config.json", '"frequencies": "pi"', '"frequencies": "zero"', "not the one that was saved"),
        ("config.json", '"frequencies": "pi"', '"frequencies": "one"', "frequencies has no such value"),
        ("config.json", '"layers": 2', '"layers": 2.0', "layers has no such value"),
        ("config.json", '"layers": 2', '"layers": 1000000000000', "absurdly large"),
    ],
)
def test_a_card_or_config_changed_by_hand_is_refused(folder, file, old, new, message):
    path = folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ModelError, match=message):
        load_backbone(folder)


def test_a_saved_model_is_the_same_model(saved):
    network, card = load_model(saved)
    for key, value in build(SMALL).state_dict().items():
        assert network.state_dict()[key].equal(value)
    assert card.name == "small"
    opened = load_backbone(saved, device="cpu")
    assert opened.fingerprint == TennsBackbone.wrap(build(SMALL), TOKENIZER).fingerprint
    assert sorted(path.name for path in saved.parent.iterdir()) == ["small"]


def test_sharding_changes_nothing_but_files(tmp_path, saved):
    card = save_model(tmp_path / "m", build(SMALL), name="s", tokenizer_sha256=TOKENIZER.sha256, shard_bytes=8_400_000)
    files = sorted((tmp_path / "m").glob("*.safetensors"))
    assert [file.name for file in files] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert all(file.stat().st_size <= 8_400_000 for file in files)
    assert load_backbone(tmp_path / "m").fingerprint == load_backbone(saved).fingerprint
    # the folder of a distribution is kept: only the model's files are replaced
    (tmp_path / "m" / "LICENSE").write_text("CC BY-SA 4.0")
    again = save_model(tmp_path / "m", build(SMALL), name="s", tokenizer_sha256=TOKENIZER.sha256)
    assert again.weights_sha256 == card.weights_sha256
    names = sorted(path.name for path in (tmp_path / "m").iterdir())
    assert names == ["LICENSE", "config.json", "model.safetensors", "precog.json"]
    files[1].write_bytes(b"")
    with pytest.raises(ModelError, match="do not belong together"):
        load_model(tmp_path / "m")
    with pytest.raises(ModelError, match="larger than a file may be"):
        save_model(tmp_path / "n", build(SMALL), name="s", tokenizer_sha256="", shard_bytes=100_000)
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "int4:128"])
def test_stored_in_fewer_bits_a_model_loads_close_and_has_a_fingerprint_of_its_own(scheme, tmp_path, saved):
    network = build(SMALL)
    options = {"matrices": "fp32" if scheme == "int4:64" else scheme, "embedding": scheme}
    save_model(tmp_path / "m", network, name="q", tokenizer_sha256=TOKENIZER.sha256, **options)
    loaded, _ = load_model(tmp_path / "m")
    bound = {"fp32": 0, "bf16": 2**-8, "int8": 1 / 127}.get(scheme, 0.3)
    for key, value in network.state_dict().items():
        error = (loaded.state_dict()[key] - value).abs().max()
        assert error <= bound * value.abs().max()
    if scheme == "fp32":
        return
    assert load_backbone(tmp_path / "m").fingerprint != load_backbone(saved).fingerprint
    assert sum(f.stat().st_size for f in (tmp_path / "m").iterdir()) < sum(f.stat().st_size for f in saved.iterdir())


@settings(deadline=None, max_examples=30)
@given(rows=st.integers(1, 5), groups=st.integers(1, 3), size=st.sampled_from([32, 64, 128]), seed=st.integers(0, 999))
def test_quantised_matrices_stay_within_half_a_step(rows, groups, size, seed):
    weight = torch.randn(rows, groups * size, generator=torch.Generator().manual_seed(seed))
    stored = pack(weight, "int8")
    error = (unpack(stored, "int8") - weight).abs()
    assert (error <= weight.abs().amax(1, keepdim=True) / 127 * 0.5001).all()
    stored = pack(weight, f"int4:{size}")
    assert stored[".int4"].nbytes == weight.numel() // 2
    restored = unpack(stored, f"int4:{size}")
    naive = weight.view(rows, groups, size).abs().amax(2, keepdim=True) / 7
    rounded = (weight.view(rows, groups, size) / naive).round() * naive
    assert (restored - weight).square().sum() <= (rounded.view_as(weight) - weight).square().sum() * 1.001
    assert unpack(pack(restored, f"int4:{size}"), f"int4:{size}").sub(restored).abs().max() <= 2e-3 * weight.abs().max()


def test_matrices_that_cannot_be_quantised_are_refused():
    assert unpack(pack(torch.zeros(2, 32), "int4:32"), "int4:32").equal(torch.zeros(2, 32))
    assert unpack(pack(torch.zeros(2, 32), "int8"), "int8").equal(torch.zeros(2, 32))
    with pytest.raises(ModelError, match="divide"):
        pack(torch.zeros(2, 33), "int4:32")
    with pytest.raises(ModelError, match="not finite"):
        pack(torch.tensor([[float("nan")] * 32]), "int8")
    with pytest.raises(ModelError, match="too large"):
        pack(torch.full((1, 32), 1e9), "int4:32")
    with pytest.raises(ModelError, match="no such quantisation"):
        pack(torch.zeros(2, 32), "int3")
    with pytest.raises(ModelError, match="missing"):
        unpack({".int8": torch.zeros(2, 32, dtype=torch.int8)}, "int8")
    with pytest.raises(ModelError, match="malformed"):
        unpack({".int8": torch.zeros(2, 32), ".scale": torch.ones(2, 1)}, "int8")


def test_a_changed_weight_is_found(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelError, match="not those that were saved"):
        load_backbone(folder)
    path.write_bytes(data[:1000])
    with pytest.raises(ModelError, match="damaged"):
        load_backbone(folder)
    path.unlink()
    with pytest.raises(ModelError, match="missing"):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", {"dropout": 0.1}, "unknown keys"),
        ("config.json", {"width": None}, "missing"),
        ("config.json", {"layers": 3}, "not those of config.json"),
        ("config.json", {"layers": 1}, "not those of config.json"),
        ("config.json", {"bottleneck": 16}, "another shape"),
        ("precog.json", {"extra": 1}, "unknown keys"),
        ("precog.json", {"format": 2}, "unknown format"),
        ("precog.json", {"format": "1"}, "wrong type"),
        ("precog.json", {"weights_sha256": "00"}, "not those that were saved"),
        ("precog.json", {"weights_sha256": None}, "missing"),
        ("precog.json", {"tokenizer_sha256": "00" * 32}, "another tokenizer"),
        ("precog.json", {"backbone": "mamba"}, "another kind of model"),
        ("precog.json", {"boundary_id": 0}, "another kind"),
        ("precog.json", {"chunk_template": "text"}, "chunk_template"),
        ("precog.json", {"question_template": "{question}{question}"}, "question_template"),
        ("precog.json", {"quantisation": {"matrices": "int8", "embedding": "fp32"}}, "missing"),
        ("precog.json", {"quantisation": {"matrices": "int3", "embedding": "fp32"}}, "unknown quantisation"),
        ("precog.json", {"quantisation": {}}, "unknown quantisation"),
    ],
)
def test_every_change_of_a_model_folder_fails_loudly(folder, file, changes, message):
    edit(folder / file, **changes)
    with pytest.raises(ModelError, match=message):
        load_backbone(folder)


@pytest.mark.parametrize("file", ["config.json", "precog.json"])
def test_damaged_json_fails_loudly(folder, file):
    for content in (b"{", b"[]", b"\xff\xfe\x00"):
        (folder / file).write_bytes(content)
        with pytest.raises(ModelError):
            load_backbone(folder)
    (folder / file).unlink()
    with pytest.raises(ModelError):
        load_backbone(folder)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"conv_boundary": "carried"}),
        ("config.json", {"state_norm": True, "readout": "static"}),
        ("precog.json", {"chunk_template": "Text: {chunk}"}),
    ],
)
def test_what_still_loads_after_a_change_refuses_the_old_states(folder, saved, file, changes):
    [state] = load_backbone(saved).encode_chunks([[5, 6, 7]])
    edit(folder / file, **changes)
    changed = load_backbone(folder)
    with pytest.raises(ForeignStateError, match="precog reindex"):
        changed.prefill([1, 5], state)


def test_changed_weights_refuse_the_old_states(tmp_path, saved):
    [state] = load_backbone(saved).encode_chunks([[5, 6, 7]])
    network = build(SMALL)
    with torch.no_grad():
        network.blocks[1].alpha[0] += 1e-6
    save_model(tmp_path / "m", network, name="small", tokenizer_sha256=TOKENIZER.sha256)
    with pytest.raises(ForeignStateError):
        load_backbone(tmp_path / "m").prefill([1, 5], state)


def test_what_is_not_the_chunks_business_leaves_states_valid(folder, saved):
    [state] = load_backbone(saved).encode_chunks([[5, 6, 7]])
    edit(folder / "precog.json", name="renamed", question_template="Q: {question}", notes={"steps": 3})
    load_backbone(folder).prefill([1, 5], state)


def test_another_tokenizer_is_refused(saved):
    class Other(MistralTokenizer):
        sha256 = "ff" * 32

    with pytest.raises(ModelError, match="another tokenizer"):
        load_backbone(saved, tokenizer=Other())


def test_the_digest_names_dtype_shape_and_name():
    base = {"a": torch.zeros(2, 3)}
    others = [{"b": torch.zeros(2, 3)}, {"a": torch.zeros(3, 2)}, {"a": torch.zeros(2, 3, dtype=torch.int32)}]
    assert len({weights_digest(tensors) for tensors in (base, *others)}) == 4


def test_models_are_found_by_path_environment_and_entry_point(saved, tmp_path, monkeypatch):
    monkeypatch.delenv("PRECOG_MODEL", raising=False)
    monkeypatch.setattr("precog.backbones.registry.entry_points", lambda group: [])
    assert find_model(saved) == saved
    with pytest.raises(ModelError, match=r"no model is installed.*--model"):
        find_model()
    with pytest.raises(ModelError, match="no such model"):
        find_model("nothing-of-the-kind")
    with pytest.raises(ModelError, match="no model"):
        load_backbone(tmp_path)
    monkeypatch.setenv("PRECOG_MODEL", str(saved))
    assert find_model() == saved
    monkeypatch.delenv("PRECOG_MODEL")

    shutil.copytree(saved, tmp_path / "some_weights")
    (tmp_path / "some_weights" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = importlib.metadata.EntryPoint("small-1", "some_weights", "precog.models")
    gone = importlib.metadata.EntryPoint("gone", "not_there_at_all", "precog.models")
    monkeypatch.setattr("precog.backbones.registry.entry_points", lambda group: [point, gone])
    assert installed_models() == {"small-1": tmp_path / "some_weights"}
    assert find_model() == find_model("small-1") == tmp_path / "some_weights"
    assert load_backbone().card.name == "small"
    twin = importlib.metadata.EntryPoint("small-2", "some_weights", "precog.models")
    monkeypatch.setattr("precog.backbones.registry.entry_points", lambda group: [point, twin])
    with pytest.raises(ModelError, match="several models"):
        find_model()


def test_devices_and_dtypes_that_do_not_exist_are_refused(saved):
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(UsageError):
        choose_device("tpu")
    if not torch.cuda.is_available():
        assert choose_device("auto").type == "cpu"
        with pytest.raises(UsageError, match="no such device"):
            choose_device("cuda")
    with pytest.raises(UsageError):
        load_backbone(saved, dtype="int8")
    with pytest.raises(UsageError):
        load_backbone(saved, threads=0)


def test_cards_keep_what_they_are_given():
    card = ModelCard(name="ü", tokenizer_sha256="t", weights_sha256="w", decoding={"beam_width": 4}, notes={"a": [1]})
    card = dataclasses.replace(card, chunk_tokens=64)
    assert ModelCard.from_json(card.to_json()) == card
    said = {**dataclasses.asdict(card), "checksum": card.checksum}
    del said["confidence"]  # written only where there is one
    assert json.loads(card.to_json()) == said


@pytest.mark.parametrize(("modes", "num_bytes"), [(8, 196_608), (16, 393_216)])
def test_the_papers_model_has_the_papers_sizes(modes, num_bytes):
    values = TennsConfig.preset("paper").to_dict()
    if modes == 16:
        values.update(modes_per_group=16, inner=8192)
    config = TennsConfig.from_dict(values)
    with torch.device("meta"):
        network = TennsModel(config)
    if modes == 8:
        assert network.num_parameters() == 1_190_502_400
    card = ModelCard(name="paper", tokenizer_sha256=TOKENIZER.sha256, weights_sha256="0" * 64)
    backbone = TennsBackbone(network, card, TOKENIZER, device="meta")
    assert codec_named("fp16").state_bytes(backbone.spec) == num_bytes
    assert backbone.spec.decay_time_bytes == 24_576


@pytest.mark.parametrize("frequencies", ["pi", "zero", "learned"])
def test_every_decay_shrinks_over_the_whole_range_of_steps(frequencies):
    config = TennsConfig.from_dict({**TennsConfig.preset("tiny").to_dict(), "frequencies": frequencies})
    block = TennsBlock(config)
    with torch.no_grad():
        block.alpha.copy_(torch.linspace(-1.0, 6.0, block.alpha.numel()))
    real, omega = block.decay_rates()
    for step in torch.logspace(-5, 0, 200).clamp(DT_MIN, DT_MAX):
        decay = torch.polar((step * real).exp(), step * omega)
        assert (decay.abs() < 1).all()
    # as printed, exp(−Δ·A), it would grow
    assert (torch.exp(-DT_MAX * real) > 1).all()


@pytest.mark.parametrize("error", [ValueError, RuntimeError, TypeError, KeyError, OSError, SafetensorError])
def test_whatever_reading_a_tensor_raises_is_one_clear_line(error, folder, monkeypatch):
    class Refusing(contextlib.AbstractContextManager):
        def __init__(self, *_, **__):
            pass

        def __exit__(self, *_):
            pass

        def keys(self):
            return ["norm.weight"]

        def get_tensor(self, key):
            raise error(f"could not determine\nthe shape of {key}")

    monkeypatch.setattr("precog.backbones.tenns.checkpoint.safe_open", Refusing)
    with pytest.raises(ModelError, match=r"a weight file is damaged.*could not determine") as caught:
        load_backbone(folder)
    assert "\n" not in str(caught.value)


def test_a_model_is_called_by_the_name_that_it_is_installed_by(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "installed_models", lambda: {"tenns-base": tmp_path / "precog_tenns_base"})
    assert registry.title_of(str(tmp_path / "precog_tenns_base")) == "tenns-base"
    assert registry.title_of(str(tmp_path / "mine")) == "mine"
