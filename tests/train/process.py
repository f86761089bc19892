"""One process of a run of several: ``test_parallel`` starts two of these, and runs the same alone to compare."""

import contextlib
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.train import checkpoint
from precog.train.evaluation import evaluate_batches
from precog.train.loop import Run
from precog.train.parallel import agreed, join, leave, place_in_world
from precog.train.settings import TrainSettings

CPU = torch.device("cpu")
DEVICE = torch.device(sys.argv[2] if __name__ == "__main__" and len(sys.argv) > 2 else "cpu")
SIZE, STEPS = 8, 4


class Global:
    """The rank's share of a batch that is the same whatever the number of processes and micro-batches."""

    def __init__(self, accumulate, stop_at=None):
        self.accumulate, self.stop_at = accumulate, stop_at
        self.rank, self.world = place_in_world()

    def batch(self, number):
        step, part = divmod(number, self.accumulate)
        if step == self.stop_at:
            raise KeyboardInterrupt
        rng = np.random.default_rng(step)
        rows = np.arange(SIZE).reshape(self.accumulate, self.world, -1)[part, self.rank]
        if step % 2:
            tokens = rng.integers(3, 64, (SIZE, 25)).astype(np.int32)
            tokens[:, ::6] = 1
            return {"tokens": tokens[rows], "reset": (rng.random((SIZE, 25)) < 0.1)[rows]}
        context = rng.integers(10, 64, (SIZE, 9)).astype(np.int32)
        context[:, 0] = 1
        pick = rng.integers(0, 4, SIZE) * 2
        ids = np.arange(SIZE)
        questions = np.stack([np.ones(SIZE), context[ids, pick + 1], context[ids, pick + 2], np.full(SIZE, 2)], axis=1)
        count = len(rows)
        full = np.full(count, 4, np.int32)
        return {
            "context": context[rows], "context_len": np.full(count, 9, np.int32),
            "questions": questions.astype(np.int32)[rows], "prompt_len": full - 2, "row_len": full,
            "answer_start": (pick + 2)[rows].astype(np.int32), "owner": np.arange(count),
            "kind": np.zeros(count, np.uint8), "valid": np.ones(count, bool), "source": np.zeros(count, np.int64),
        }  # fmt: skip


class Poisoned:
    """Scores as another does, but for one micro-batch, whose loss is no number."""

    def __init__(self, scoring, number, is_here):
        self.scoring, self.number, self.is_here = scoring, number, is_here

    def loss(self, arrays, number, weights):
        compute = self.scoring.loss(arrays, number, weights)
        if number != self.number or not self.is_here:
            return compute

        def poisoned(model):
            loss, found = compute(model)
            return loss * float("nan"), found

        return poisoned


def make_run(out, kind, accumulate, **values):
    """A run of ``STEPS`` steps over ``Global`` batches."""
    out.mkdir(parents=True, exist_ok=True)
    config = dataclasses.replace(TennsConfig.preset("tiny"), vocabulary=64, tied=False)
    settings = TrainSettings(
        steps=STEPS,
        log_every_steps=1,
        save_every_steps=2,
        warmup_steps=1,
        lr=1e-3,
        unanswerable=0.0,
        question_weight=0.0,  # scored on a quarter of a micro-batch's rows, whichever these are
        ema=0.5,
        parallel=kind,
        accumulate=accumulate,
        **{"optimiser": "adamw", **values},
    )
    device = join(DEVICE)
    run = Run(build(config), settings, out, device, compiled=device.type == "cuda")
    return run, Global(accumulate)


def evaluate(model):
    """Figures of one batch, the same in all processes."""
    source = Global(1)
    source.rank, source.world = 0, 1
    return evaluate_batches(model, [source.batch(100)], model.embedding.weight.device, torch.float32)


def train(out, kind, accumulate, **values):
    """Lines of the metrics."""
    run, source = make_run(out, kind, accumulate, **values)
    run.train(source, evaluate)
    return run


def main(out):
    """Everything that needs two processes."""
    torch.set_num_threads(1)
    device = join(DEVICE)
    rank, _ = place_in_world()
    found = {}
    for name, kind, accumulate, values in (
        ("ddp", "ddp", 1, {}),
        ("ddp muon", "ddp", 2, {"optimiser": "muon"}),
        ("fsdp", "fsdp", 1, {}),
        ("fsdp accumulated", "fsdp", 2, {"recompute": True}),
    ):
        found[name] = train(out / name, kind, accumulate, **values).workers.kind

    run, source = make_run(out / "resumed", "fsdp", 2)
    source.stop_at = 3
    with contextlib.suppress(KeyboardInterrupt):
        run.train(source)
    train(out / "resumed", "fsdp", 2)

    run, source = make_run(out / "full", "fsdp", 1)
    saved = checkpoint.save_file

    def full(*_):
        raise OSError(28, "No space left on device")

    checkpoint.save_file = full
    found["full disk"] = outcome(lambda: run.train(source))
    checkpoint.save_file = saved

    run, source = make_run(out / "poisoned", "ddp", 2)
    run.scoring = Poisoned(run.scoring, 5, rank == 1)
    found["poisoned"] = outcome(lambda: run.train(source))

    def fail():
        with agreed(device):
            if rank == 1:
                raise checkpoint.TrainingError("the second shelf is empty", given="nothing", hint="fill it")

    found["agreed"] = outcome(fail)
    (out / f"found-{rank}.json").write_text(json.dumps(found))
    leave()


def outcome(function):
    """How a call ended: its error and exit status."""
    try:
        function()
    except SystemExit as end:
        return ["SystemExit", end.code]
    except Exception as error:
        return [type(error).__name__, str(error)]
    return ["", ""]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
