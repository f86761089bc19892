"""Putting a run together: data, model, device, processes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from precog.backbones.tenns.checkpoint import save_model, weights_digest
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel, build
from precog.errors import PrecogError, UsageError
from precog.figures import loss_curve
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.checkpoint import gathered
from precog.train.data.batches import MixtureEntry, PackedTokens, QuestionBatches
from precog.train.evaluation import OnProgress, count_batches, evaluate_batches, evaluate_tokens
from precog.train.initial import load_initial
from precog.train.lock import RunLock
from precog.train.loop import Run
from precog.train.metrics import read_metrics
from precog.train.parallel import agreed, alone, join, leave, place_in_world
from precog.train.settings import TrainSettings
from precog.train.training_data import TrainingData, open_data

EVALUATION_BATCHES = 4
MODEL_FOLDER = "model"
CURVE_FILE = "loss.png"
UNLIMITED_BYTES = 1 << 50  # a model that stays on this disk needs no small files


def start(
    config: TennsConfig,
    settings: TrainSettings,
    data: Path,
    out: Path,
    mixture: Path | None = None,
    initial_weights: Path | None = None,
    device: torch.device | None = None,
    compiled: bool = False,
    on_metrics: Callable[[dict[str, Any]], None] = lambda metrics: None,
    on_progress: Callable[[int, int, dict[str, Any]], None] = lambda done, total, metrics: None,
    say: Callable[[str], None] = lambda line: None,
    data_name: str | None = None,
    on_evaluation: OnProgress = lambda done, total, figures: None,
) -> dict[str, Any]:
    """Train from prepared data, on one device or, under torchrun, on several.

    Args:
        config: shape of the model.
        settings: how to train.
        data: a folder with ``train/`` and ``val/`` folders of prepared sets, ``stream/train/`` and ``stream/val/`` of
            token streams.
        out: folder of checkpoints and metrics; a run found there is resumed.
        mixture: shares of the sets; proportional to their sizes when None.
        initial_weights: to start from instead of random ones: a safetensors file, a model folder, or the folder of
            another run; the optimiser starts fresh.
        device: CUDA when available, else the CPU, when None.
        compiled: compile the blocks; slower to start, faster to run.
        on_metrics: called with every line of metrics, in the first process.
        on_progress: called after every step with steps done, steps in all, and the latest metrics, in the first
            process.
        say: called with what a person should know, in the first process.
        data_name: what a person calls the data; the folder's path when None.
        on_evaluation: called after every held-out batch with batches done and batches in all, in the first process.

    Returns:
        The last line of metrics, in every process.

    Raises:
        TrainingError: data, settings or a checkpoint do not fit, another run writes to ``out``, or the loss is not
            finite.
        TrainingInterrupted: SIGINT or SIGTERM arrived; the run is saved.
        StorageError: the disk is full or refuses.
        UsageError: the device is not there, or fewer than the processes need.
    """
    if device is None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device: this machine has no such device", given=device, hint="use --device cpu")
    rank, world = place_in_world()
    device = join(device)
    lock: RunLock | None = None
    try:
        with alone():
            with agreed(device):
                lock = RunLock(out) if rank == 0 else None
                opened = open_data(data, mixture)
                opened.check_vocabulary(config.vocabulary)
                source = opened.batches(settings, rank, world)
                if rank == 0 and settings.minutes and len(opened.phases) > 1:
                    say(
                        f"the mixture's phases follow the {settings.steps:,} steps, not the clock: where the minutes"
                        " end the run sooner, later phases are cut short or never begin; choose steps to match"
                    )
                model = build(config, settings.seed)
                if initial_weights is not None:
                    load_initial(model, initial_weights, say if rank == 0 else lambda line: None)
                begun = None if initial_weights is None else weights_digest(model.state_dict())
                fingerprint = opened.fingerprint()
                identity = {"data": fingerprint, "initial": begun}
                shares = "" if mixture is None else f", mixture {mixture}"
                called = {"data": f"{data_name or data}{shares} ({fingerprint[:8]})"}
                run = Run(
                    model, settings, out, device, compiled, on_metrics, on_progress, identity, say=say, called=called
                )
                evaluation = HeldOut(opened, settings, run, on_evaluation)
            last = run.train(source, evaluation if evaluation.batches else None)
            export(run, out / MODEL_FOLDER, out.resolve().name, {"steps": last["step"], "tokens": run.tokens_seen})
            if rank == 0:
                draw(out, say)
        return last
    finally:
        if lock is not None:
            lock.release()
        leave()


class HeldOut:
    """The same held-out batches in every process and at every evaluation.

    Args:
        data: what was prepared.
        settings: sizes of the batches.
        run: whose model is evaluated.
        on_progress: called after every batch, in the first process.
    """

    def __init__(
        self,
        data: TrainingData,
        settings: TrainSettings,
        run: Run,
        on_progress: OnProgress = lambda done, total, figures: None,
    ) -> None:
        self._run = run
        self._on_progress: OnProgress = on_progress if run.rank == 0 else lambda done, total, figures: None
        self.batches: dict[str, QuestionBatches | PackedTokens] = {}
        for name, rows in data.held_out_sets.items():
            entries = [MixtureEntry(rows, 1.0)]
            self.batches[name] = QuestionBatches(
                entries, settings.batch_chunks, settings.questions_per_chunk, seed=settings.seed
            )
        for name, stream in data.held_out_streams.items():
            if any(len(shard.tokens) > settings.stream_tokens for shard in stream.shards):
                self.batches[f"stream {name}"] = PackedTokens(
                    [stream], settings.stream_rows, settings.stream_tokens, seed=settings.seed
                )

    def __call__(self, model: TennsModel) -> dict[str, dict[str, float]]:
        """Figures by name of the set or stream."""
        results = {}
        run, plain = self._run, self._run.variation.plain()
        rounds = sum(1 if isinstance(batches, PackedTokens) else 2 for batches in self.batches.values())
        told = count_batches(rounds * EVALUATION_BATCHES, self._on_progress)
        for name, batches in self.batches.items():
            if isinstance(batches, PackedTokens):
                windows = [batches.batch(number) for number in range(EVALUATION_BATCHES)]
                results[name] = evaluate_tokens(model, windows, run.device, run.dtype, told)
                continue
            arrays = [batches.batch(number) for number in range(EVALUATION_BATCHES)]
            results[name] = evaluate_batches(model, arrays, run.device, run.dtype, variation=plain, on_batch=told)
            blind = evaluate_batches(
                model, arrays, run.device, run.dtype, use_state=False, variation=plain, on_batch=told
            )
            results[name]["exact_without_state"] = blind["exact"]
        return results


def export(run: Run, folder: Path, name: str, notes: Mapping[str, Any]) -> None:
    """Write a run's weights, or their average where it keeps one, as a model folder; all processes call it.

    Raises:
        StorageError: the disk is full or refuses.
    """
    with run.averaged():
        weights = gathered(run.model.state_dict())  # on the CPU these are the model's own, hence all inside
        with agreed(run.device):
            if run.rank == 0:
                with torch.device("meta"):
                    model = TennsModel(run.model.config)
                model.load_state_dict(weights, strict=True, assign=True)
                save_model(
                    folder,
                    model,
                    name=name,
                    tokenizer_sha256=MISTRAL_SHA256,
                    shard_bytes=UNLIMITED_BYTES,
                    notes=dict(notes),
                )


def draw(out: Path, say: Callable[[str], None]) -> None:
    """Draw a run's losses beside its metrics; where that cannot be done, say so in one line."""
    try:
        loss_curve(read_metrics(out), out / CURVE_FILE)
    except PrecogError as error:
        say(f"no {CURVE_FILE}: {error}")
