"""Recorded steps: equal to plain ones."""

import dataclasses

import pytest
import torch
from made import make_arrays

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import TrainingError
from precog.train.loop import Run
from precog.train.objective import LossWeights
from precog.train.questions import Variation, place
from precog.train.recorded import kind_of, tensors_of
from precog.train.settings import TrainSettings

OUTER = TennsConfig(
    width=16, layers=3, inner=32, mixer="outer", heads=2, coefficients=4, channels=8, bottleneck=8, tied=True,
    vocabulary=60,
)  # fmt: skip
CPU = torch.device("cpu")
BASE = dataclasses.replace(TennsConfig.preset("base"), layers=2, vocabulary=512)


def test_a_recording_serves_batches_of_equal_shapes_only():
    weights = LossWeights()
    variation = Variation(unanswerable=0.2, twice=0.5, answer_tokens_per_row=6)
    one, two = (place(make_arrays(seed=seed), CPU, variation, (seed,)) for seed in (0, 1))
    other = place(make_arrays(chunks=5), CPU, variation, (0,))
    assert kind_of(one, weights) == kind_of(two, weights)
    assert kind_of(one, weights) != kind_of(other, weights)
    assert kind_of(one, weights) != kind_of(one, dataclasses.replace(weights, context=0.0))
    assert kind_of(one, weights) == kind_of(one, dataclasses.replace(weights, context=0.3))
    assert len(tensors_of(one)) == 12


def test_without_a_gpu_a_recorded_run_is_refused(tmp_path):
    with pytest.raises(TrainingError, match="a recorded run needs CUDA"):
        Run(build(OUTER), TrainSettings(recorded=True), tmp_path, CPU)


@pytest.mark.gpu
def test_recorded_steps_find_the_losses_of_plain_ones(tmp_path):
    class Source:
        def batch(self, step):
            arrays = make_arrays(16, 8, seed=step)
            return arrays

    losses = []
    for recorded in (False, True):
        settings = TrainSettings(steps=12, log_every_steps=1, recorded=recorded, optimiser="adamw", lr=1e-3)
        out = tmp_path / str(recorded)
        out.mkdir()
        found = []
        run = Run(build(BASE, 1), settings, out, torch.device("cuda"), on_metrics=found.append)
        run.train(Source())
        losses.append([line["loss"] for line in found])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
