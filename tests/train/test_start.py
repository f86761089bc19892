"""A run from a folder of prepared data: what it leaves behind, and what it refuses in one clear line."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from precog.backbones.tenns.checkpoint import load_model, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import StorageError, TrainingError, UsageError
from precog.train.initial import load_initial
from precog.train.lock import RunLock
from precog.train.settings import TrainSettings
from precog.train.start import start
from precog.train.training_data import highest_id, open_data

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
    steps=4,
    batch_chunks=4,
    questions_per_chunk=2,
    stream_rows=2,
    stream_tokens=16,
    log_every_steps=1,
    warmup_steps=1,
    unanswerable=0.0,
)
CPU = torch.device("cpu")


def varied(**values):
    return dataclasses.replace(SETTINGS, **values)


@pytest.fixture
def mixture(tmp_path):
    path = tmp_path / "mixture.json"
    path.write_text(json.dumps({"phases": [{"until": 1.0, "sets": {"pairs": 1}, "streams": {"text": 1}}]}))
    return path


def metrics_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_a_model_metrics_and_a_curve(prepared, mixture, tmp_path):
    seen, told, steps = [], [], []
    out = tmp_path / "run"
    last = start(
        CONFIG, varied(accumulate=2, evaluate_every_steps=2), prepared, out, mixture, None, CPU,
        on_metrics=seen.append, on_progress=lambda *values: steps.append(values[:2]), say=told.append,
    )  # fmt: skip
    lines = metrics_of(out)
    assert seen == lines
    assert [line["step"] for line in lines] == [1, 2, 2, 3, 4, 4]
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    trained = [line for line in lines if "loss" in line]
    assert {"loss", "gradient_norm", "lr", "tokens_per_sec", "padded_tokens_per_sec", "tokens_seen"} <= set(trained[0])
    assert any("lm" in line for line in trained)
    assert any("grounded" in line for line in trained)
    assert [line["tokens_seen"] for line in trained] == sorted(line["tokens_seen"] for line in trained)
    assert set(last["evaluation"]) == {"pairs", "stream text"}
    assert last["evaluation"]["stream text"]["lm"] > 0
    model, card = load_model(out / "model")
    assert model.config == CONFIG
    assert card.notes["tokens"] == trained[-1]["tokens_seen"]
    weights = load_file(out / "step-00000004" / "model.safetensors")
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert (out / "loss.png").is_file() != bool(told)  # drawn, or said why not


def test_the_average_is_what_is_exported_and_evaluated(prepared, tmp_path):
    out = tmp_path / "run"
    start(CONFIG, varied(ema=0.9), prepared, out, None, None, CPU)
    exported, _ = load_model(out / "model")
    average = load_file(out / "step-00000004" / "average.safetensors")
    weights = load_file(out / "step-00000004" / "model.safetensors")
    assert all(torch.equal(average[name], value) for name, value in exported.state_dict().items())
    assert not torch.equal(average["embedding.weight"], weights["embedding.weight"])


def test_streams_alone_are_enough(prepared, tmp_path):
    for kind in ("train", "val"):
        for path in sorted((prepared / kind).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    last = start(CONFIG, SETTINGS, prepared, tmp_path / "run", None, None, CPU)
    assert "grounded" not in last
    assert last["lm"] == pytest.approx(last["loss"])
    assert last["tokens_seen"] == 4 * 2 * 16


def test_an_initial_model_can_be_a_file_a_model_or_a_run(prepared, tmp_path):
    out = tmp_path / "run"
    start(CONFIG, varied(ema=0.9), prepared, out, None, None, CPU)
    average = load_file(out / "step-00000004" / "average.safetensors")
    weights = load_file(out / "step-00000004" / "model.safetensors")
    for path, expected in (
        (out, average),
        (out / "model", average),
        (out / "step-00000004", average),
        (out / "step-00000004" / "model.safetensors", weights),
    ):
        model = build(CONFIG, 7)
        load_initial(model, path)
        assert all(torch.equal(expected[name], value) for name, value in model.state_dict().items()), path
    again = start(CONFIG, varied(lr=1e-3), prepared, tmp_path / "next", None, out, CPU)
    assert again["step"] == 4


@pytest.mark.parametrize("kind", ["nothing", "empty", "other", "model", "damaged"])
def test_initial_weights_that_do_not_fit(kind, tmp_path):
    path = tmp_path / "initial"
    other = dataclasses.replace(CONFIG, width=24)
    if kind == "empty":
        path.mkdir()
    elif kind == "other":
        save_file(build(other).state_dict(), path)
    elif kind == "model":
        save_model(path, build(other), name="other", tokenizer_sha256="0" * 64)
    elif kind == "damaged":
        path.write_bytes(b"no tensors")
    with pytest.raises(TrainingError, match="initial weights") as error:
        load_initial(build(CONFIG), path)
    assert "\n" not in str(error.value)


def test_a_folder_without_data_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(TrainingError, match="no training data"):
            start(CONFIG, SETTINGS, folder, tmp_path / "run", None, None, CPU)


@pytest.mark.parametrize("place", ["train/pairs/context.npy", "val/pairs/questions.npy", "stream/train/text/00000.npy"])
def test_an_id_outside_of_the_vocabulary_is_refused_wherever_it_is(place, prepared, tmp_path):
    array = np.load(prepared / place, mmap_mode="r+")
    array.reshape(-1)[-3] = 64
    array.flush()
    with pytest.raises(TrainingError, match=r"another vocabulary|damaged") as error:
        start(CONFIG, SETTINGS, prepared, tmp_path / "run", None, None, CPU)
    assert place.split("/")[-1].split(".")[0] in str(error.value)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_ids_of_a_large_array_are_compared_in_blocks():
    ids = np.zeros(100_000, np.uint16)
    ids[-1] = 7
    assert highest_id(ids, looked_at=6400) == 7
    assert highest_id(ids) == 7
    assert highest_id(ids[:0]) == 0


def test_other_data_or_shares_are_another_run(prepared, mixture, tmp_path, make_pairs):
    out = tmp_path / "run"
    start(CONFIG, SETTINGS, prepared, out, None, None, CPU)
    with pytest.raises(TrainingError, match="run holds a run on other data") as error:
        start(CONFIG, SETTINGS, prepared, out, mixture, None, CPU, data_name="texts")
    mine, found = open_data(prepared, mixture).fingerprint()[:8], open_data(prepared).fingerprint()[:8]
    assert error.value.given == f"texts, mixture {mixture} ({mine})"
    assert error.value.expected == f"{prepared} ({found})"
    moved = tmp_path / "moved"
    prepared.rename(moved)
    assert open_data(moved).fingerprint() == json.loads((out / "step-00000004/record.json").read_text())["data"]
    start(CONFIG, SETTINGS, moved, out, None, None, CPU)
    make_pairs(moved / "train" / "pairs", 9)
    with pytest.raises(TrainingError, match="other data") as error:
        start(CONFIG, SETTINGS, moved, out, None, None, CPU)
    assert error.value.expected == f"{moved} ({found})"
    assert error.value.hint == "choose another --out folder, or remove this one to begin anew"


@pytest.mark.parametrize(("minutes", "num_phases", "is_told"), [(60.0, 2, True), (0.0, 2, False), (60.0, 1, False)])
def test_phases_that_time_may_cut_off_are_told(minutes, num_phases, is_told, prepared, tmp_path):
    path = tmp_path / "mixture.json"
    ends = [(number + 1) / num_phases for number in range(num_phases)]
    path.write_text(json.dumps({"phases": [{"until": end, "sets": {"pairs": 1}} for end in ends]}))
    told: list[str] = []
    start(CONFIG, varied(minutes=minutes), prepared, tmp_path / "run", path, None, CPU, say=told.append)
    assert any("phases follow the 4 steps, not the clock" in line for line in told) == is_told


def test_a_missing_gpu_is_said(prepared, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UsageError, match="no such device"):
        start(CONFIG, SETTINGS, prepared, tmp_path / "run", None, None, torch.device("cuda"))


def test_shards_need_processes_and_adamw(prepared, tmp_path):
    with pytest.raises(TrainingError, match="parallel=fsdp needs several processes"):
        start(CONFIG, varied(parallel="fsdp"), prepared, tmp_path / "run", None, None, CPU)


@pytest.mark.parametrize(("rank", "world"), [("1", "1"), ("-1", "2"), ("x", "2")])
def test_ranks_that_nobody_set_so_are_refused(rank, world, prepared, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(UsageError, match="torchrun"):
        start(CONFIG, SETTINGS, prepared, tmp_path / "run", None, None, CPU)


def test_a_folder_has_one_run_at_a_time(prepared, tmp_path):
    out = tmp_path / "run"
    held = RunLock(out)
    program = "import sys, pathlib; from precog.train.lock import RunLock; RunLock(pathlib.Path(sys.argv[1]))"
    other = subprocess.run([sys.executable, "-c", program, out], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert f"another run writes to this folder; given: {out}, process {os.getpid()}" in other.stderr
    with pytest.raises(TrainingError, match="one run per folder"):
        start(CONFIG, SETTINGS, prepared, out, None, None, CPU)
    held.release()
    start(CONFIG, SETTINGS, prepared, out, None, None, CPU)
    RunLock(out).release()


def test_an_output_folder_that_cannot_be_made(prepared, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="output folder"):
        start(CONFIG, SETTINGS, prepared, tmp_path / "file" / "run", None, None, CPU)


def test_batches_say_where_their_rows_come_from(prepared, mixture):
    data = open_data(prepared, mixture)
    batches = data.batches(varied(steps=8))
    for number in range(8):
        arrays, origins = batches.batch(number), batches.describe(number)
        for row, origin in enumerate(origins):
            if "tokens" in arrays:
                name, shard, begin = origin.replace(", shard ", "|").replace(", from token ", "|").split("|")
                expected = data.streams[name].shards[int(shard)].tokens[int(begin) :][:17]
                assert arrays["tokens"][row].tolist() == expected.tolist()
            else:
                name, chunk = origin.split(", chunk ")
                assert arrays["context"][row].tolist() == data.sets[name].columns["context"][int(chunk)].tolist()
