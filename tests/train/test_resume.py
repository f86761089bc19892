"""What else a resumed run depends on: what is dropped, where it began, its metrics, bounds of its settings."""

import json
from contextlib import nullcontext

import pytest
import torch
from made import make_arrays
from safetensors.torch import load_file, save_file

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.lora import LoraSettings, add_lora, lora_tensors
from precog.backbones.tenns.model import build
from precog.errors import ModelError, PrecogError, TrainingError
from precog.train.checkpoint import latest_checkpoint
from precog.train.initial import load_initial
from precog.train.loop import Run
from precog.train.metrics import MetricsLog, read_metrics
from precog.train.settings import COUNTS, TrainSettings
from precog.train.start import start

CONFIG = TennsConfig(width=16, layers=2, inner=32, mixer="outer", heads=2, coefficients=4, channels=4, bottleneck=8,
                     tied=True, vocabulary=64)  # fmt: skip
VALUES = {"steps": 6, "batch_chunks": 4, "questions_per_chunk": 2, "log_every_steps": 1, "save_every_steps": 3,
          "warmup_steps": 1, "stream_rows": 2, "stream_tokens": 16}  # fmt: skip
CPU = torch.device("cpu")


class Made:
    def __init__(self, stop_at=None):
        self.stop_at = stop_at

    def batch(self, number):
        if number == self.stop_at:
            raise TrainingError("stop here")
        return make_arrays(seed=number)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("blocks", "adapters"), [(0.0, 0.5), (0.3, 0.0), (0.3, 0.5)])
def test_a_run_with_dropout_resumes_bit_for_bit(blocks, adapters, recompute, tmp_path):
    settings = TrainSettings.from_dict({**VALUES, "accumulate": 2, "recompute": recompute, "dropout": blocks})

    def adapted(folder, source):
        folder.mkdir(exist_ok=True)
        model = build(CONFIG)
        if adapters:
            model = add_lora(model, LoraSettings(rank=2, dropout=adapters), seed=0)
        training = Run(model.train(), settings, folder, CPU)
        with nullcontext() if source.stop_at is None else pytest.raises(TrainingError, match="stop here"):
            training.train(source)
        return lora_tensors(model) if adapters else model.state_dict()

    torch.manual_seed(1)
    whole = adapted(tmp_path / "whole", Made())
    adapted(tmp_path / "cut", Made(stop_at=9))
    torch.manual_seed(2)  # another process
    again = adapted(tmp_path / "cut", Made())
    assert read_metrics(tmp_path / "cut")[-1]["loss"] == read_metrics(tmp_path / "whole")[-1]["loss"]
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert any(bool(value.any()) for name, value in whole.items() if name.endswith(".up") or not adapters)


def test_dropout_of_blocks_changes_training_alone():
    tokens = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(0))
    plain, model = build(CONFIG), build(CONFIG)
    model.drop(0.5)
    expected = plain.train()(tokens)
    found = model.eval()(tokens)
    assert torch.equal(found.hidden, expected.hidden)
    assert torch.equal(found.state, expected.state)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = model.train()(tokens).hidden, model(tokens).hidden
    assert not torch.allclose(first, expected.hidden)
    assert not torch.allclose(first, second)


def test_a_run_that_begins_elsewhere_is_another_run(prepared, tmp_path):
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    save_file(build(CONFIG, 5).state_dict(), first)
    save_file(build(CONFIG, 6).state_dict(), second)
    settings = TrainSettings.from_dict({**VALUES, "steps": 2})
    start(CONFIG, settings, prepared, tmp_path / "run", None, first, CPU)
    start(CONFIG, settings, prepared, tmp_path / "run", None, first, CPU)
    for other in (second, None):
        with pytest.raises(TrainingError, match="another initial"):
            start(CONFIG, settings, prepared, tmp_path / "run", None, other, CPU)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64])
def test_initial_weights_are_real_numbers(dtype, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({name: value.to(dtype) for name, value in build(CONFIG).state_dict().items()}, path)
    with pytest.raises(TrainingError, match=r"initial weights do not fit.* is of type"):
        load_initial(build(CONFIG), path)


def flip(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def test_damaged_initial_weights_are_found_when_the_file_is_named(tmp_path):
    save_model(tmp_path / "m", build(CONFIG), name="m", tokenizer_sha256="0" * 64)
    file = tmp_path / "m" / "model.safetensors"
    expected = load_file(file)
    model = build(CONFIG, 9)
    load_initial(model, file)
    assert all(torch.equal(expected[name], value) for name, value in model.state_dict().items())
    flip(file)
    with pytest.raises(ModelError, match="not those that were saved"):
        load_initial(build(CONFIG), file)
    (tmp_path / "run").mkdir()
    Run(build(CONFIG), TrainSettings.from_dict(VALUES), tmp_path / "run", CPU).train(Made())
    file = latest_checkpoint(tmp_path / "run") / "model.safetensors"
    load_initial(build(CONFIG), file)
    flip(file)
    for path in (file, file.parent):
        with pytest.raises(TrainingError, match="initial weights are damaged"):
            load_initial(build(CONFIG), path)
    with pytest.raises(TrainingError, match="no checkpoint of this run can be used"):
        load_initial(build(CONFIG), tmp_path / "run")


def test_lines_of_metrics_that_no_run_writes_are_left_out(tmp_path):
    odd = [
        "[" * 100_000,
        '{"step": true}',
        '{"step": "1"}',
        "9" * 5000,
        "\0",
        '{"step": 1, "loss": 2.0}',
        '{"a": ' * 9000,
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(odd) + "\n")
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 2.0}]
    MetricsLog(tmp_path, 5).close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, "loss": 2.0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, most + 1) for name, most in COUNTS.items()),
        *((name, 10**30) for name in ("steps", "warmup_steps", "save_every_steps", "seed")),
        ("seed", -1),
        *((name, int("9" * 400)) for name in ("lr", "minutes", "clip", "ema", "steps", "twice", "answer_weight")),
        ("lr", -int("9" * 400)),
    ],
)
def test_a_setting_beyond_any_machine_is_out_of_range(name, value):
    with pytest.raises(TrainingError, match=f"training setting {name} is out of range") as error:
        TrainSettings.from_dict({name: value})
    assert isinstance(error.value, PrecogError)
    assert len(str(error.value)) < 200
    if name in COUNTS:
        assert getattr(TrainSettings.from_dict({name: COUNTS[name]}), name) == COUNTS[name]


@pytest.mark.parametrize("pair", [("batch_chunks", "questions_per_chunk"), ("stream_rows", "stream_tokens")])
def test_sizes_that_are_too_large_together_are_out_of_range(pair):
    with pytest.raises(TrainingError, match=" × ".join(pair)):
        TrainSettings.from_dict({name: COUNTS[name] for name in pair})
