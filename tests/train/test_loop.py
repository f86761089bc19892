"""A run is reproducible, resumes to the same losses, and refuses what it cannot trust."""

import contextlib
import json

import numpy as np
import pytest
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import StorageError, TrainingError
from precog.train.checkpoint import latest_checkpoint, save_checkpoint
from precog.train.loop import Run, learning_rate_factor
from precog.train.settings import TrainSettings

CONFIG = TennsConfig(
    width=16,
    layers=2,
    inner=32,
    mixer="outer",
    heads=2,
    coefficients=4,
    channels=4,
    bottleneck=8,
    tied=True,
    vocabulary=64,
)
SETTINGS = TrainSettings(
    steps=8,
    batch_chunks=4,
    questions_per_chunk=2,
    log_every_steps=1,
    save_every_steps=4,
    warmup_steps=2,
    unanswerable=0.2,
)


class Pairs:
    """Key and value tokens; the question repeats the key."""

    def __init__(self, stop_at=None, poison=None):
        self.stop_at, self.poison = stop_at, poison

    def batch(self, step):
        if step == self.stop_at:
            raise KeyboardInterrupt
        rng = np.random.default_rng(step)
        context = rng.integers(10, 60, (4, 9)).astype(np.int32)
        context[:, 0] = 1
        owner = np.repeat(np.arange(4), 2)
        questions = np.zeros((8, 4), np.int32)
        pick = rng.integers(0, 4, 8) * 2
        questions[:, 0] = 1
        questions[:, 1] = context[owner, pick + 1]
        questions[:, 2] = context[owner, pick + 2]
        questions[:, 3] = 2
        full = np.full(8, 4, np.int32)
        return {
            "context": context, "context_len": np.full(4, 9, np.int32), "questions": questions,
            "prompt_len": full - 2, "row_len": full, "answer_start": pick + 2, "owner": owner,
            "kind": np.zeros(8, np.uint8), "valid": np.ones(8, bool), "source": np.zeros(4, np.int64),
        }  # fmt: skip


def run(folder, source, settings=SETTINGS, config=CONFIG):
    folder.mkdir(exist_ok=True)
    training = Run(build(config, settings.seed), settings, folder, torch.device("cpu"))
    with contextlib.suppress(KeyboardInterrupt):
        training.train(source)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines}, training.model


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_an_interrupted_run_resumes_to_the_same_losses_and_weights(tmp_path, optimiser):
    settings = TrainSettings(**{**SETTINGS.__dict__, "optimiser": optimiser})
    expected, whole = run(tmp_path / "whole", Pairs(), settings)
    run(tmp_path / "cut", Pairs(stop_at=6), settings)
    assert latest_checkpoint(tmp_path / "cut").name == "step-00000004"
    resumed, again = run(tmp_path / "cut", Pairs(), settings)
    assert resumed == expected
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name]), name


def test_the_loss_falls(tmp_path):
    settings = TrainSettings(**{**SETTINGS.__dict__, "steps": 60, "lr": 1e-2, "unanswerable": 0.0})
    losses, _ = run(tmp_path / "run", Pairs(), settings)
    assert losses[60] < 0.9 * losses[1]


def test_a_run_with_other_settings_is_not_resumed(tmp_path):
    run(tmp_path / "run", Pairs())
    with pytest.raises(TrainingError, match="another settings"):
        run(tmp_path / "run", Pairs(), TrainSettings(**{**SETTINGS.__dict__, "lr": 1e-4}))


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    training = Run(build(CONFIG), SETTINGS, folder, torch.device("cpu"))

    class Poisoned(Pairs):
        def batch(self, step):
            if step == 5:
                with torch.no_grad():
                    training.model.norm.weight.fill_(float("nan"))
            return super().batch(step)

    with pytest.raises(TrainingError, match="not finite"):
        training.train(Poisoned())
    kept = latest_checkpoint(folder)
    if kept is not None:
        from safetensors.torch import load_file

        assert all(torch.isfinite(t).all() for t in load_file(kept / "model.safetensors").values())


def test_a_damaged_checkpoint_is_one_clear_error(tmp_path):
    run(tmp_path / "run", Pairs())
    path = latest_checkpoint(tmp_path / "run") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrainingError, match="does not fit"):
        run(tmp_path / "run", Pairs())


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run(folder, Pairs())
    before = latest_checkpoint(folder)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("precog.train.checkpoint.save_file", full)
    with pytest.raises(StorageError, match="could not be written"):
        save_checkpoint(folder, 99, build(CONFIG), [], {})
    assert latest_checkpoint(folder) == before
    assert not list(folder.glob(".*partial"))


def test_schedule_warms_up_and_ends_at_the_floor():
    settings = TrainSettings(steps=100, warmup_steps=10, final_lr_fraction=0.1)
    factors = [learning_rate_factor(settings, step, step / 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.1, abs=0.01)
    assert max(factors) == pytest.approx(1.0, abs=0.03)
    assert learning_rate_factor(settings, 99, 1.0) == pytest.approx(0.1)
