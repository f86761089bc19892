"""Putting a run together: data, model, device, processes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel, build
from precog.errors import TrainingError
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.data.batches import MixtureEntry, QuestionBatches
from precog.train.loop import Run, evaluate_batches
from precog.train.mixture import PhasedBatches, prepared_sets, read_phases
from precog.train.settings import TrainSettings

EVALUATION_BATCHES = 4
MODEL_FOLDER = "model"
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
) -> dict[str, Any]:
    """Train from prepared data, on one device or, under torchrun, on several.

    Args:
        config: shape of the model.
        settings: how to train.
        data: a folder with ``train/`` and ``val/`` folders of prepared sets.
        out: folder of checkpoints and metrics; a run found there is resumed.
        mixture: shares of the sets; proportional to their sizes when None.
        initial_weights: a safetensors file to start from instead of random weights.
        device: CUDA when available, else the CPU, when None.
        compiled: compile the blocks; slower to start, faster to run.
        on_metrics: called with every line of metrics, on the first process.

    Returns:
        The last line of metrics.

    Raises:
        TrainingError: data, settings or a checkpoint do not fit, or the loss is not finite.
    """
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if device is None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if world > 1:
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    sets = prepared_sets(data / "train")
    for name, rows in sets.items():
        highest = int(max(rows.columns["context"][:1000].max(), rows.columns["questions"][:1000].max()))
        if highest >= config.vocabulary:
            raise TrainingError(
                "the data was made with another vocabulary",
                given=f"token id {highest} in {name}",
                expected=f"ids below {config.vocabulary}",
            )
    out.mkdir(parents=True, exist_ok=True)
    model = build(config, settings.seed)
    if initial_weights is not None:
        _load_weights(model, initial_weights)
    run = Run(model, settings, out, device, compiled, on_metrics)
    shape = (settings.batch_chunks, settings.questions_per_chunk)
    source = PhasedBatches(
        sets, read_phases(mixture, sets), settings.steps, *shape, seed=settings.seed, rank=rank, world=world
    )
    held_out = prepared_sets(data / "val") if any((data / "val").glob("*/meta.json")) else {}

    def evaluate(model: TennsModel) -> dict[str, Any]:
        results: dict[str, Any] = {}
        if rank == 0:
            for name, rows in held_out.items():
                batches = QuestionBatches([MixtureEntry(rows, 1.0)], *shape, seed=settings.seed)
                arrays = [batches.batch(step) for step in range(EVALUATION_BATCHES)]
                plain = run.variation.plain()
                results[name] = evaluate_batches(model, arrays, device, run.dtype, variation=plain)
                blind = evaluate_batches(model, arrays, device, run.dtype, use_state=False, variation=plain)
                results[name]["exact_without_state"] = blind["exact"]
        if world > 1:
            dist.barrier()
        return results

    try:
        last = run.train(source, evaluate if held_out else None)
        if rank == 0:
            save_model(
                out / MODEL_FOLDER,
                model,
                name=out.name,
                tokenizer_sha256=MISTRAL_SHA256,
                shard_bytes=UNLIMITED_BYTES,
                notes={"steps": int(last["step"])},
            )
        return last
    finally:
        if world > 1:
            dist.destroy_process_group()


def _load_weights(model: TennsModel, path: Path) -> None:
    try:
        model.load_state_dict(load_file(path), strict=True)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise TrainingError(
            "the initial weights do not fit the model",
            given=f"{path}: {str(error).splitlines()[0]}",
            expected="the same preset",
        ) from error
