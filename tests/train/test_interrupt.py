"""A signal ends a run after the step in progress, and the same command goes on to the losses of a run left alone."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precog.interrupt import Interrupt
from precog.train.interrupt import TrainingInterrupted

STEPS = 50
INTERRUPTED = f"""
import os, signal, sys
from precog.cli.main import main
from precog.train.metrics import MetricsLog

write = MetricsLog.write

def written(log, entry):
    write(log, entry)
    if entry["step"] == {STEPS // 2}:
        os.kill(os.getpid(), signal.SIGINT)

MetricsLog.write = written
main(sys.argv[1:])
"""
"""``precog``, interrupted while it trains."""


def command(prepared, out, *more):
    settings = ["log_every_steps=1", "batch_chunks=2", "questions_per_chunk=2", "warmup_steps=5", "ema=0.9"]
    chosen = [word for setting in settings for word in ("--set", setting)]
    return [
        sys.executable, "-m", "precog", "train", "--preset", "tiny", "--data", prepared, "--out", out,
        "--steps", STEPS, "--device", "cpu", "--threads", 1, *chosen, *more,
    ]  # fmt: skip


def run(*arguments):
    return run_of([str(word) for word in command(*arguments)])


def run_of(words):
    return subprocess.run(words, capture_output=True, text=True, check=False)


def lines_of(out):
    path = out / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def losses_of(out):
    return [(line["step"], line["loss"], line["gradient_norm"]) for line in lines_of(out) if "evaluation" not in line]


def test_an_interrupted_run_goes_on_to_the_same_losses(prepared, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "cut"
    assert run(prepared, whole).returncode == 0
    words = [str(word) for word in command(prepared, out)]
    cut = run_of([sys.executable, "-c", INTERRUPTED, *words[3:]])
    assert cut.returncode == 130
    done = lines_of(out)[-1]["step"]
    assert done == STEPS // 2 + 1  # the step in progress
    said = cut.stderr.strip().splitlines()[-1]
    assert said.startswith(f"precog: interrupted after step {done}, saved in ")
    assert said.endswith("run the same command again to go on from there")
    assert "Traceback" not in cut.stderr

    assert run(prepared, out).returncode == 0
    assert losses_of(out) == losses_of(whole)
    assert [step for step, *_ in losses_of(out)] == list(range(1, STEPS + 1))
    for name in ("model.safetensors", "average.safetensors", "optimiser.safetensors"):
        folder = f"step-{STEPS:08d}"
        assert (out / folder / name).read_bytes() == (whole / folder / name).read_bytes()


def test_a_second_sigint_does_not_wait_and_a_second_sigterm_does():
    interrupt = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    with interrupt.listening():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.is_wanted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_who_ignores_signals_goes_on_ignoring_them():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupt = Interrupt()
        with interrupt.listening():
            signal.raise_signal(signal.SIGINT)
            assert not interrupt.is_wanted
            assert signal.getsignal(signal.SIGTERM) == interrupt._ask
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_an_interrupted_run_says():
    error = TrainingInterrupted(7, None)
    assert error.exit_status == 130
    assert str(error) == "interrupted after step 7; run the same command again to go on from there"
    saved = TrainingInterrupted(7, Path("runs/a/step-00000007"))
    assert str(saved).startswith("interrupted after step 7, saved in runs/a/step-00000007; run ")
