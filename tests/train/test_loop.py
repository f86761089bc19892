"""A run is reproducible, resumes to the same losses, and refuses what it cannot trust."""

import contextlib
import dataclasses
import json
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import StorageError, TrainingError
from precog.train.checkpoint import latest_checkpoint, save_checkpoint
from precog.train.interrupt import TrainingInterrupted
from precog.train.loop import Run
from precog.train.seal import sealed
from precog.train.settings import TrainSettings
from precog.train.speed import Speed, body_parameters, peak_flops_per_sec

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


class Described(Pairs):
    """Can say where its rows come from."""

    def describe(self, step):
        return [f"pairs, chunk {number}" for number in range(4)]


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


def test_a_run_with_other_settings_shape_or_processes_is_not_resumed(tmp_path, monkeypatch):
    run(tmp_path / "run", Pairs())
    with pytest.raises(TrainingError, match="another settings") as error:
        run(tmp_path / "run", Pairs(), varied(lr=1e-4))
    assert error.value.given == '{"lr": 0.0001}'
    assert error.value.expected == '{"lr": 0.0015}'
    with pytest.raises(TrainingError, match="another config"):
        run(tmp_path / "run", Pairs(), config=dataclasses.replace(CONFIG, kernel=3))
    path = latest_checkpoint(tmp_path / "run") / "record.json"
    path.write_text(json.dumps(sealed({**json.loads(path.read_text()), "world": 4})))
    with pytest.raises(TrainingError, match="another world; given: 1; expected: 4"):
        run(tmp_path / "run", Pairs())
    path.write_text("{")
    with pytest.raises(TrainingError, match="damaged"):
        run(tmp_path / "run", Pairs())


def varied(**values):
    return dataclasses.replace(SETTINGS, **values)


@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_a_loss_that_is_not_finite_stops_before_the_step_and_names_the_batch(tmp_path, poison):
    folder = tmp_path / "run"
    folder.mkdir()
    settings = varied(accumulate=2, ema=0.9)
    training = Run(build(CONFIG), settings, folder, torch.device("cpu"))
    inner = training.scoring

    class Poisoned:
        def loss(self, arrays, number, weights):
            compute = inner.loss(arrays, number, weights)
            if number != 11:
                return compute

            def poisoned(model):
                loss, found = compute(model)
                if poison == "loss":
                    return loss * float("inf"), found
                loss.register_hook(lambda gradient: gradient * float("nan"))
                return loss, found

            return poisoned

    training.scoring = Poisoned()
    before = {}
    update = training._update

    def remembered(factor, step):
        update(factor, step)
        before.update({name: value.clone() for name, value in training.model.state_dict().items()})

    training._update = remembered
    with pytest.raises(TrainingError, match="not finite") as error:
        training.train(Described())
    said = str(error.value)
    assert "pairs, chunk 0; pairs, chunk 1; pairs, chunk 2; …" in said
    assert "step 6" in said
    assert str(folder / "step-00000004") in said
    assert all(torch.equal(before[name], value) for name, value in training.model.state_dict().items())
    note = json.loads((folder / "bad_batch.json").read_text())
    assert note["step"] == 6
    numbers = [batch["micro_batch"] for batch in note["micro_batches"]]
    assert numbers == ([11] if poison == "loss" else [10, 11])
    assert note["micro_batches"][-1]["origins"] == Described().describe(11)
    assert note["micro_batches"][-1]["first_tokens"] == Pairs().batch(11)["context"].tolist()
    for file in ("model", "average"):
        kept = load_file(folder / "step-00000004" / f"{file}.safetensors")
        assert all(torch.isfinite(t).all() for t in kept.values())
    resumed, _ = run(folder, Pairs(), settings)
    assert list(resumed) == list(range(1, 9))


def test_micro_batches_are_one_batch(tmp_path):
    class Halves(Pairs):
        def batch(self, number):
            whole = super().batch(number // 2)
            chunks, rows = (slice(0, 2), slice(0, 4)) if number % 2 == 0 else (slice(2, 4), slice(4, 8))
            cut = {name: array[chunks if name in ("context", "context_len", "source") else rows]
                   for name, array in whole.items()}  # fmt: skip
            cut["owner"] = cut["owner"] - cut["owner"].min()
            return cut

    values = {"optimiser": "adamw", "unanswerable": 0.0, "question_weight": 0.0}
    whole, model = run(tmp_path / "whole", Pairs(), varied(**values))
    halves, other = run(tmp_path / "halves", Halves(), varied(accumulate=2, **values))
    assert halves == pytest.approx(whole, abs=1e-5)
    again, recomputed = run(tmp_path / "recomputed", Pairs(), varied(recompute=True, **values))
    assert again == pytest.approx(whole, abs=1e-6)
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], weight, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(recomputed.state_dict()[name], weight, rtol=1e-4, atol=1e-6)


def test_a_signal_ends_the_run_after_the_step_and_it_resumes(tmp_path):
    expected, _ = run(tmp_path / "whole", Pairs())
    folder = tmp_path / "cut"
    folder.mkdir()
    training = Run(build(CONFIG, SETTINGS.seed), SETTINGS, folder, torch.device("cpu"), on_progress=terminate_at(3))
    with pytest.raises(TrainingInterrupted, match="after step 4") as error:
        training.train(Pairs())
    assert error.value.exit_status == 130
    assert latest_checkpoint(folder).name == "step-00000004"
    resumed, _ = run(folder, Pairs())
    assert resumed == expected


def test_lines_over_several_steps_are_the_same_after_a_resume(tmp_path):
    settings = varied(log_every_steps=3, save_every_steps=2)
    expected, _ = run(tmp_path / "whole", Pairs(), settings)
    run(tmp_path / "cut", Pairs(stop_at=6), settings)
    resumed, _ = run(tmp_path / "cut", Pairs(), settings)
    assert list(expected) == [3, 6, 8]
    assert resumed == expected


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TrainingError("the shard is gone", given="shard 3"), "the shard is gone; given: shard 3"),
        (OSError(5, "Input/output error"), "a batch cannot be made for step 7: OSError"),
    ],
)
def test_a_batch_that_cannot_be_made_ends_the_run_in_one_line(tmp_path, error, said):
    class Broken(Pairs):
        def batch(self, step):
            if step == 6:
                raise error
            return super().batch(step)

    with pytest.raises(TrainingError, match=said):
        run(tmp_path / "run", Broken())
    assert latest_checkpoint(tmp_path / "run").name == "step-00000004"
    resumed, _ = run(tmp_path / "run", Pairs())
    assert list(resumed) == list(range(1, 9))


def test_a_device_without_room_is_said_in_one_line(tmp_path):
    training = Run(build(CONFIG), SETTINGS, tmp_path, torch.device("cpu"))

    def full(compute):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nmore")

    training.workers.run = full
    with pytest.raises(TrainingError, match=r"out of memory in step 1: CUDA .* 9 GiB\.; lower batch_chunks"):
        training.train(Pairs())


def terminate_at(step):
    def told(done, total, metrics):
        assert total == SETTINGS.steps
        assert metrics["step"] == done
        if done == step:
            signal.raise_signal(signal.SIGTERM)

    return told


def test_the_metrics_hold_every_step_once(tmp_path):
    folder = tmp_path / "run"
    run(folder, Pairs(stop_at=7))
    path = folder / "metrics.jsonl"
    assert len(path.read_text().splitlines()) == 6
    with path.open("a") as file:
        file.write('{"step": 6, "loss"')  # cut off by a power failure
    losses, _ = run(folder, Pairs())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert list(losses) == list(range(1, 9))
    assert [line["tokens_seen"] for line in lines] == [(4 * 9 + 8 * 4) * step for step in range(1, 9)]


def test_the_average_forgets_its_beginning(tmp_path):
    folder = tmp_path / "run"
    run(folder, Pairs(), varied(ema=0.5, save_every_steps=1))
    training = Run(build(CONFIG), varied(ema=0.5), tmp_path, torch.device("cpu"))
    average = training.average
    start = {name: value.clone() for name, value in average.values.items()}
    with torch.no_grad():
        for parameter in training.model.parameters():
            parameter += 1.0
    average.update(0)  # d = 1/10
    for name, value in average.values.items():
        torch.testing.assert_close(value, start[name] + 0.9)
    average.update(100)  # d = 1/2
    for name, value in average.values.items():
        torch.testing.assert_close(value, start[name] + 0.95)
    kept = {name: value.clone() for name, value in training.model.state_dict().items()}
    with training.averaged():
        for name, value in training.model.state_dict().items():
            torch.testing.assert_close(value, start[name] + 0.95)
    assert all(torch.equal(kept[name], value) for name, value in training.model.state_dict().items())


def test_frozen_weights_stay(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    model = build(CONFIG)
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Run(model, varied(ema=0.5), folder, torch.device("cpu")).train(Pairs())
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"embedding.weight", "norm.weight"}


def test_speed_counts_model_arithmetic(monkeypatch):
    model = build(CONFIG)
    assert body_parameters(model) == model.num_parameters() - 64 * 16
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda device: 7)
    speed = Speed(100_000, torch.device("cuda"), 2)
    speed.add(10**12, 2 * 10**12)
    speed._began -= 1000.0
    values = speed.read()
    assert values["mfu"] == pytest.approx(6 * 100_000 * 10**9 / (2 * 989e12), rel=1e-2)
    assert values["padded_tokens_per_sec"] == pytest.approx(2 * values["tokens_per_sec"])
    assert values["peak_memory_bytes"] == 7
    assert peak_flops_per_sec(torch.device("cpu")) is None
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "Some other card")
    assert peak_flops_per_sec(torch.device("cuda")) is None


def test_a_damaged_checkpoint_is_one_clear_error(tmp_path):
    run(tmp_path / "run", Pairs())
    path = latest_checkpoint(tmp_path / "run") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrainingError, match=r"damaged: .*model\.safetensors is not what was written"):
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


def test_a_full_disk_in_a_run_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    saved = []

    def full_later(tensors, path):
        if len(saved) >= 2:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        saved.append(path)
        save_file(tensors, path)

    monkeypatch.setattr("precog.train.checkpoint.save_file", full_later)
    with pytest.raises(StorageError, match=r"No space left on device.*free some space and resume"):
        run(folder, Pairs())
    assert latest_checkpoint(folder).name == "step-00000004"
    assert not list(folder.glob(".*partial"))
    monkeypatch.undo()
    losses, _ = run(folder, Pairs())
    expected, _ = run(tmp_path / "whole", Pairs())
    assert losses == expected
