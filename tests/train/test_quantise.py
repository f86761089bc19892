"""A model folder in fewer bits: compensated rounding against its loop, and what is written is what was measured."""

import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns.checkpoint import load_model, read_card, save_model, write_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.kept import keep_confidence
from precog.backbones.tenns.model import build
from precog.backbones.tenns.quantise import SCHEMES, pack, unpack
from precog.errors import InputError, ModelError, UsageError
from precog.train.quantise import calibration_rows, quantise
from precog.train.rounding import DAMPING, round_compensated

CONFIG = TennsConfig.preset("tiny-outer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m"
    save_model(
        path, build(CONFIG), name="m", tokenizer_sha256="t", question_template="Q {question}", notes={"steps": 3}
    )
    keep_confidence(path, {"bias": 0.0, "weights": {}, "threshold": 0.5, "fitted": {}})
    return path


def _inputs(columns: int, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    mixing = torch.randn(columns, columns, generator=draw) / columns**0.5
    return torch.randn(512, columns, generator=draw) @ (mixing + 0.5 * torch.ones(columns, columns) / columns)


def _damage(weight: torch.Tensor, stored: dict[str, torch.Tensor], scheme: str, x: torch.Tensor) -> float:
    return (x @ (unpack(stored, scheme) - weight).T).square().mean().item()


@settings(max_examples=15, deadline=None)
@given(scheme=st.sampled_from(["int4:32", "int4:64", "int4:128", "int4:channel"]), seed=st.integers(0, 99))
def test_compensated_rounding_hurts_outputs_less(scheme, seed):
    weight = torch.randn(24, 128, generator=torch.Generator().manual_seed(seed))
    x = _inputs(128, seed)
    stored = round_compensated(weight, scheme, x.T @ x / len(x))
    assert _damage(weight, stored, scheme, x) < 0.8 * _damage(weight, pack(weight, scheme), scheme, x)
    again = round_compensated(weight, scheme, x.T @ x / len(x))
    assert all(again[suffix].equal(part) for suffix, part in stored.items())


def test_compensated_rounding_is_the_loop_of_its_definition():
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(5))
    x = _inputs(64, 5).double()
    h = x.T @ x
    stored = round_compensated(weight, "int4:32", h)
    h.diagonal().add_(DAMPING * h.diagonal().mean())
    w = weight.double().clone()
    remaining = list(range(64))
    for j in range(64):  # each step inverts what is left of H anew: no Cholesky, no blocks
        inverse = torch.linalg.inv(h[remaining][:, remaining])
        scale = stored[".scale"][:, j // 32].double()
        q = (w[:, j] / scale).round().clamp(-8, 7)
        error = (w[:, j] - q * scale) / inverse[0, 0]
        w[:, remaining] -= error[:, None] * inverse[0]
        assert unpack(stored, "int4:32")[:, j].double().sub(q * scale).abs().max() < 1e-6, j
        remaining.pop(0)


def test_inputs_that_never_moved_are_no_obstacle_and_bad_ones_are_refused():
    weight = torch.randn(4, 32)
    assert round_compensated(weight, "int4:32", torch.zeros(32, 32)).keys() == {".int4", ".scale"}
    assert round_compensated(weight, "int8", torch.zeros(32, 32))[".int8"].equal(pack(weight, "int8")[".int8"])
    with pytest.raises(ModelError, match="not finite"):
        round_compensated(weight, "int4:32", torch.full((32, 32), float("nan")))
    with pytest.raises(ModelError, match="divide"):
        round_compensated(torch.randn(4, 33), "int4:32", torch.eye(33))


def test_what_is_written_is_what_was_measured(folder, tmp_path):
    made = quantise(folder, matrices="int4:32", embedding="int8")
    card = made.write(tmp_path / "q", name="small")
    network, loaded = load_model(tmp_path / "q")
    for key, value in made.unpacked()[0].state_dict().items():
        assert network.state_dict()[key].equal(value)
    assert made.unpacked()[1].weights_sha256 == card.weights_sha256 == loaded.weights_sha256
    assert (loaded.name, loaded.question_template) == ("small", "Q {question}")
    assert loaded.notes == {"steps": 3, "quantised_from": read_card(folder)[0].weights_sha256}
    assert loaded.quantisation == {"matrices": "int4:32", "embedding": "int8"}
    assert loaded.confidence == {}  # was fitted to the source's scores
    stored = sum(path.stat().st_size for path in (tmp_path / "q").glob("*.safetensors"))
    assert made.num_bytes <= stored <= made.num_bytes + 65_536
    kinds = {kind.name: kind for kind in made.kinds}
    assert kinds["embedding.weight"].scheme == "int8"
    assert 0.05 < kinds["project_in.weight"].relative_error < 0.12
    assert sum(kind.parameters for kind in made.kinds) < network.num_parameters()
    with pytest.raises(UsageError, match="exists already"):
        made.write(tmp_path / "q", name="again")


@pytest.mark.parametrize("tied", [True, False])
def test_calibrated_blocks_give_outputs_nearer_to_the_source(tmp_path, tied):
    config = TennsConfig.from_dict({**CONFIG.to_dict(), "tied": tied})
    save_model(tmp_path / "m", build(config), name="m", tokenizer_sha256="t")
    rows = calibration_rows([torch.randint(3, 32_000, (3000,), generator=torch.Generator().manual_seed(0)).tolist()], 1)
    assert rows.shape == (11, 256)
    held_out = torch.randint(3, 32_000, (2, 64), generator=torch.Generator().manual_seed(1))
    right = load_model(tmp_path / "m")[0](held_out).hidden
    errors = {}
    for name, calibration in (("plain", None), ("compensated", rows)):
        done = []
        made = quantise(
            tmp_path / "m", matrices="int4:32", embedding="fp32", calibration=calibration, on_block=done.append
        )
        assert done == [1, 2, 3]
        errors[name] = (made.unpacked()[0](held_out).hidden - right).square().mean().item()
    assert errors["compensated"] < 0.9 * errors["plain"]


def test_bad_models_and_texts_are_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="no such quantisation"):
        quantise(folder, matrices="int3")
    with pytest.raises(ModelError, match=r"project_in.weight: a matrix does not divide .*int8"):
        quantise(folder, matrices="int4:128")
    with pytest.raises(InputError, match="too short"):
        calibration_rows([[5] * 254], 1)
    network = build(CONFIG)
    with torch.no_grad():
        network.blocks[1].conv_bias[3] = float("nan")
    write_model(tmp_path / "nan", CONFIG, network.state_dict(), read_card(folder)[0])
    with pytest.raises(ModelError, match="not finite"):
        quantise(tmp_path / "nan", matrices="int8")
    shutil.copytree(folder, tmp_path / "torn")
    path = tmp_path / "torn" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ModelError, match="damaged"):
        quantise(tmp_path / "torn", matrices="int8")


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "fp32"])
def test_a_weight_that_fewer_bits_cannot_hold_is_refused(scheme):
    huge = torch.zeros(4, 128)
    huge[1, 2] = 3.4028234e38
    with pytest.raises(ModelError, match=f"too large for {scheme.partition(':')[0].upper()}"):
        pack(huge, scheme)
