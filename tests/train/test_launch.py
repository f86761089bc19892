"""``torchrun -m precog train``: several processes, one voice, one run."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow


def launch(*arguments):
    words = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "precog", "train", "--preset", "tiny", "--device", "cpu", *arguments,
    ]  # fmt: skip
    return subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def spoken(process):
    out, errors = process.communicate()
    return out, [line for line in errors.splitlines() if line.startswith("precog:")], process.returncode


SMALL = ("--set", "batch_chunks=2", "--set", "log_every_steps=1", "--set", "optimiser=adamw", "--set", "stream_rows=2")


def test_shards_are_trained_saved_and_exported(prepared, tmp_path):
    out = tmp_path / "run"
    text, errors, status = spoken(
        launch("--data", prepared, "--out", out, "--steps", 3, "--set", "parallel=fsdp", *SMALL)
    )
    assert (status, errors) == (0, [])
    assert text.count("trained:") == 1
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "evaluation" not in line] == [1, 2, 3]
    assert {line["world"] for line in lines if "world" in line} == {2}
    assert (out / "model" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "batch_chunks=two"], "batch_chunks"),
        (["--data", "nowhere"], "nowhere"),
        (["--set", "parallel=fsdp", "--set", "optimiser=muon"], "parallel=fsdp cuts matrices"),
        (["--preset", "none"], "no such preset"),
    ],
)
def test_an_error_is_told_once(arguments, said, prepared, tmp_path):
    process = launch("--data", prepared, "--out", tmp_path / "run", "--steps", 3, *arguments)
    _, errors, status = spoken(process)
    assert status != 0
    assert len(errors) == 1
    assert said in errors[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_saves_the_run(number, prepared, tmp_path):
    out = tmp_path / "run"
    process = launch("--data", prepared, "--out", out, "--steps", 1_000_000, *SMALL)
    metrics = out / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3) and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(number)
    _, errors, _ = spoken(process)
    assert len(errors) == 1
    assert errors[0].startswith("precog: interrupted after step")
    assert (out / "latest").read_text() in errors[0]
