"""What only graphics cards can tell: compiled blocks in BF16, memory, shards over NCCL."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.train.loop import Run
from precog.train.settings import TrainSettings

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
STEPS = 12


class Copies:
    """Windows whose second half repeats the first."""

    def batch(self, number):
        rng = np.random.default_rng(number)
        half = rng.integers(3, 500, (8, 128)).astype(np.int32)
        tokens = np.concatenate((half, half, half[:, :1]), axis=1)
        tokens[:, 0] = 1
        reset = np.zeros(tokens.shape, bool)
        reset[:, 0] = True
        return {"tokens": tokens, "reset": reset}


def train(out, preset, **values):
    out.mkdir()
    settings = TrainSettings(
        steps=STEPS, optimiser="adamw", lr=1e-3, warmup_steps=2, log_every_steps=4, dtype="bfloat16", **values
    )
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    run = Run(build(TennsConfig.preset(preset)), settings, out, torch.device("cuda"), compiled=True)
    run.train(Copies())
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("preset", ["tiny", "tiny-outer", "base"])
def test_the_loss_falls_compiled_in_bf16(preset, tmp_path):
    lines = train(tmp_path / "run", preset, accumulate=2, ema=0.9)
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert all(math.isfinite(line["loss"]) for line in lines)
    assert lines[-1]["peak_memory_bytes"] > 0
    assert lines[-1]["tokens_seen"] == STEPS * 2 * 8 * 256


def test_recomputing_needs_less_memory_and_finds_the_same(tmp_path):
    kept = train(tmp_path / "kept", "base")
    again = train(tmp_path / "again", "base", recompute=True)
    assert again[-1]["peak_memory_bytes"] < 0.7 * kept[-1]["peak_memory_bytes"]
    assert again[-1]["loss"] == pytest.approx(kept[-1]["loss"], rel=2e-2)


def test_two_cards_find_the_losses_of_one(tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip("one card")
    specification = importlib.util.spec_from_file_location("precog_tests_process", HERE / "process.py")
    process = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(process)
    process.DEVICE = torch.device("cuda")
    process.train(tmp_path / "single", "auto", 1)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*words, str(HERE / "process.py"), str(tmp_path), "cuda"],
        capture_output=True, text=True, check=False, timeout=500, env={**os.environ, "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    lines = {
        name: [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("single", "ddp", "fsdp", "fsdp accumulated", "resumed")
    }
    for name, found in lines.items():
        for mine, other in zip(found, lines["single"], strict=True):
            assert mine["loss"] == pytest.approx(other["loss"], rel=1e-3), (name, mine["step"])
