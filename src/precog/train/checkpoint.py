"""Training checkpoints: weights, optimiser state and position, in safetensors and JSON, replaced atomically.

A checkpoint is a folder ``step-00000100`` that appears whole or not at all; ``latest`` names the newest. Tensors that
were cut into shards are stored whole, so that any number of processes can read the weights. No pickle.

==========================  ================================================================================
``model.safetensors``       the weights that are trained, FP32
``average.safetensors``     their moving average, where the run keeps one
``optimiser.safetensors``   ``optimiser.parameter.name`` ▸ state
``record.json``             step, tokens seen, settings, config, fingerprint of the data
==========================  ================================================================================
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from precog.errors import StorageError, TrainingError
from precog.train.parallel import like, local, place_in_world, whole

LATEST = "latest"
WEIGHTS, AVERAGE, OPTIMISER, RECORD = "model.safetensors", "average.safetensors", "optimiser.safetensors", "record.json"


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimisers: list[torch.optim.Optimizer],
    record: dict[str, Any],
    keep: int = 1,
    average: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write everything that a resumed run needs, then drop checkpoints older than the last ``keep``.

    Where weights are cut into shards, every process calls this, and the first one writes.

    Raises:
        StorageError: the disk is full or refuses; the checkpoint before stays intact.
    """
    rank, _ = place_in_world()
    final = folder / f"step-{step:08d}"
    scalars: dict[str, float] = {}
    state: dict[str, Tensor] = {}
    for i, optimiser in enumerate(optimisers):
        for index, values in optimiser.state_dict()["state"].items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    state[f"{i}.{index}.{name}"] = value
                else:
                    scalars[f"{i}.{index}.{name}"] = value
    files = {WEIGHTS: gathered(_trained(model)), OPTIMISER: gathered(state)}
    if average is not None:
        files[AVERAGE] = gathered(average)
    if rank:
        return final
    temporary = folder / f".{final.name}.partial"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for name, tensors in files.items():
            save_file(tensors, temporary / name)
        (temporary / RECORD).write_text(json.dumps({**record, "step": step, "optimiser_scalars": scalars}, indent=1))
        for path in temporary.iterdir():
            _sync(path)
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        pointer = folder / f".{LATEST}.partial"
        pointer.write_text(final.name)
        _sync(pointer)
        pointer.replace(folder / LATEST)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(
            "the checkpoint could not be written", given=f"{final}: {error}", hint="free some space and resume"
        ) from error
    for old in sorted(folder.glob("step-*"))[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def gathered(tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """Whole tensors in main memory of the first process, one gathered at a time; nothing in the others.

    What is there already is not copied.

    Args:
        tensors: shards or whole tensors, equal names in all processes.
        dtype: to store in; their own when None.
    """
    rank, _ = place_in_world()
    kept = {}
    for name, tensor in tensors.items():
        full = whole(tensor.detach())
        if rank == 0:
            kept[name] = full.to("cpu", dtype if dtype is not None else full.dtype).contiguous()
    return kept


def _trained(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a model by name, without those that are frozen: a run brings them along itself."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in frozen}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None."""
    pointer = folder / LATEST
    if not pointer.is_file():
        return None
    path = folder / pointer.read_text().strip()
    return path if path.is_dir() else None


def load_checkpoint(
    path: Path,
    model: nn.Module,
    optimisers: list[torch.optim.Optimizer],
    average: Mapping[str, Tensor] | None = None,
) -> dict[str, Any]:
    """Load a checkpoint into a model, its optimisers and its average, and return its record.

    Raises:
        TrainingError: it is damaged, or was made by another architecture or optimiser.
    """
    try:
        record: dict[str, Any] = json.loads((path / RECORD).read_text())
        fill(_trained(model), path / WEIGHTS)
        if average is not None:
            fill(average, path / AVERAGE)
        with safe_open(path / OPTIMISER, framework="pt") as file:
            names = set(file.keys())
            for i, optimiser in enumerate(optimisers):
                parameters = [p for group in optimiser.param_groups for p in group["params"]]
                state: dict[int, dict[str, Any]] = {}
                for key in (*sorted(names), *record["optimiser_scalars"]):
                    owner, index, name = key.split(".", 2)
                    if int(owner) != i:
                        continue
                    value = file.get_tensor(key) if key in names else record["optimiser_scalars"][key]
                    parameter = parameters[int(index)]
                    if isinstance(value, Tensor) and value.shape == parameter.shape:
                        value = like(value, parameter.detach())
                    state.setdefault(int(index), {})[name] = value
                optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    except (OSError, ValueError, KeyError, IndexError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TrainingError(
            "the checkpoint does not fit this run",
            given=f"{path}: {reason}",
            expected="the same preset, settings and optimiser",
            hint="start a new --out folder, or resume with the settings of the old one",
        ) from error
    return record


@torch.no_grad()
def fill(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy the tensors of a file into tensors of the same names and shapes, whole or cut into shards.

    Raises:
        RuntimeError: names or shapes differ.
        SafetensorError: the file is damaged.
        OSError: the file cannot be read.
    """
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
        if names != set(tensors):
            missing, other = sorted(set(tensors) - names)[:3], sorted(names - set(tensors))[:3]
            raise RuntimeError(f"{path.name}: missing {missing}, superfluous {other}")
        for name, tensor in tensors.items():
            shape = file.get_slice(name).get_shape()
            if list(tensor.shape) != list(shape):
                raise RuntimeError(f"{path.name}: {name} has shape {list(shape)}, not {list(tensor.shape)}")
        for name, tensor in tensors.items():
            local(tensor).copy_(local(like(file.get_tensor(name), tensor)))
