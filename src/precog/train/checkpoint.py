"""Training checkpoints: weights, optimiser state and position, in safetensors and JSON, replaced atomically.

A checkpoint is a folder ``step-00000100`` that appears whole or not at all; ``latest`` names the newest. No pickle.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from precog.errors import StorageError, TrainingError


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimisers: list[torch.optim.Optimizer],
    record: dict[str, Any],
    keep: int = 1,
) -> Path:
    """Write everything that a resumed run needs, then drop checkpoints older than the last ``keep``.

    Raises:
        StorageError: the disk is full or refuses; the checkpoint before stays intact.
    """
    final = folder / f"step-{step:08d}"
    temporary = folder / f".{final.name}.partial"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        save_file({k: v.detach().contiguous() for k, v in model.state_dict().items()}, temporary / "model.safetensors")
        tensors: dict[str, Tensor] = {}
        scalars: dict[str, float] = {}
        for i, optimiser in enumerate(optimisers):
            for index, state in optimiser.state_dict()["state"].items():
                for name, value in state.items():
                    if isinstance(value, Tensor):
                        tensors[f"{i}.{index}.{name}"] = value.contiguous()
                    else:
                        scalars[f"{i}.{index}.{name}"] = value
        save_file(tensors, temporary / "optimiser.safetensors")
        (temporary / "record.json").write_text(
            json.dumps({**record, "step": step, "optimiser_scalars": scalars}, indent=1)
        )
        for path in temporary.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        pointer = folder / ".latest.partial"
        pointer.write_text(final.name)
        pointer.replace(folder / "latest")
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(
            "the checkpoint could not be written", given=f"{final}: {error}", hint="free some space and resume"
        ) from error
    for old in sorted(folder.glob("step-*"))[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None."""
    pointer = folder / "latest"
    if not pointer.is_file():
        return None
    path = folder / pointer.read_text().strip()
    return path if path.is_dir() else None


def load_checkpoint(path: Path, model: nn.Module, optimisers: list[torch.optim.Optimizer]) -> dict[str, Any]:
    """Load a checkpoint into a model and its optimisers and return its record.

    Raises:
        TrainingError: it is damaged, or was made by another architecture or optimiser.
    """
    try:
        record: dict[str, Any] = json.loads((path / "record.json").read_text())
        model.load_state_dict(load_file(path / "model.safetensors"), strict=True)
        tensors = load_file(path / "optimiser.safetensors")
        for i, optimiser in enumerate(optimisers):
            state: dict[int, dict[str, Any]] = {}
            flat: dict[str, Any] = {**tensors, **record["optimiser_scalars"]}
            for key, value in flat.items():
                owner, index, name = key.split(".", 2)
                if int(owner) == i:
                    state.setdefault(int(index), {})[name] = value
            optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrainingError(
            "the checkpoint does not fit this run",
            given=f"{path}: {reason}",
            expected="the same preset, settings and optimiser",
            hint="start a new --out folder, or resume with the settings of the old one",
        ) from error
    return record
