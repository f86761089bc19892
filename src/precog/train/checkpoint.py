"""Training checkpoints: weights, optimiser state and position, in safetensors and JSON, replaced atomically.

A checkpoint is a folder ``step-00000100`` that appears whole or not at all; ``latest`` names the one to go on from.
Tensors that were cut into shards are stored whole, so that any number of processes can read the weights. No pickle.

==========================  ================================================================================
``model.safetensors``       the weights that are trained, FP32
``average.safetensors``     their moving average, where the run keeps one
``optimiser.safetensors``   ``optimiser.parameter.name`` ▸ state
``record.json``             step, tokens seen, settings, config, fingerprint of the data; digests of all of it
==========================  ================================================================================
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from precog.backbones.tenns.checkpoint import UNREADABLE, reason_of
from precog.backbones.tenns.target import sync
from precog.errors import StorageError, TrainingError
from precog.train.parallel import like, local, place_in_world, whole
from precog.train.seal import FILES, NAME, RECORD, read_record, seal_folder, verify

LATEST = "latest"
WEIGHTS, AVERAGE, OPTIMISER = "model.safetensors", "average.safetensors", "optimiser.safetensors"
FLOATS = ("F64", "F32", "F16", "BF16")
"""Types of weights, as safetensors names them."""


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
        _remove(temporary)
        temporary.mkdir(parents=True)
        for name, tensors in files.items():
            save_file(tensors, temporary / name)
        for path in temporary.iterdir():
            sync(path)
        entries = seal_folder(temporary, {**record, "step": step, "optimiser_scalars": scalars})
        (temporary / RECORD).write_text(json.dumps(entries, indent=1), encoding="utf-8")
        sync(temporary / RECORD)
        sync(temporary)
        _publish(temporary, final, entries)
        pointer = folder / f".{LATEST}.partial"
        pointer.write_text(final.name, encoding="utf-8")
        sync(pointer)
        if (folder / LATEST).is_dir():
            _remove(folder / LATEST)
        pointer.replace(folder / LATEST)
        sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(
            f"the checkpoint could not be written: {final}: {error}", hint="free some space and resume"
        ) from error
    before = [path for path in _checkpoints(folder) if path.name < final.name and not path.name.startswith(".")]
    kept = {final, *before[: keep - 1]}
    for old in _checkpoints(folder):
        if old not in kept:
            shutil.rmtree(old, ignore_errors=True)
    for abandoned in folder.glob(".step-*.partial"):
        shutil.rmtree(abandoned, ignore_errors=True)
    return final


def _publish(temporary: Path, final: Path, entries: dict[str, Any]) -> None:
    """Give a complete checkpoint its name; one of that name that says the same stays, another is set aside before.

    Between the two renames the one set aside is what a run would find.
    """
    if final.exists():
        try:
            is_there = verify(final) == entries
        except TrainingError:
            is_there = False
        if is_there:
            _remove(temporary)
            return
        aside = final.with_name(f".{final.name}.replaced")
        _remove(aside)
        final.rename(aside)
    temporary.rename(final)
    sync(final.parent)


def _remove(path: Path) -> None:
    """Remove a file or a folder, where there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


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


def _checkpoints(folder: Path) -> list[Path]:
    """The folders that have the name of a checkpoint, the newest first; at equal steps one set aside comes last."""
    try:
        found = [path for path in folder.iterdir() if NAME.fullmatch(path.name) and path.is_dir()]
    except OSError:  # no folder, no run
        return []
    return sorted(found, key=lambda path: (path.name.strip(".")[:13], not path.name.startswith(".")), reverse=True)


def named_checkpoint(folder: Path) -> Path | None:
    """The checkpoint that ``latest`` names, where it names one that is there; its bytes are not looked at."""
    try:
        name = (folder / LATEST).read_bytes()[:80].decode("utf-8", errors="replace").strip()
        is_there = NAME.fullmatch(name) is not None and (folder / name).is_dir()
    except OSError:
        return None
    return folder / name if is_there else None


def latest_checkpoint(folder: Path, say: Callable[[str], None] = lambda line: None) -> Path | None:
    """The checkpoint of a run to go on from, every byte of it as it was written; None where there is no run.

    That is what ``latest`` names, or else the newest one that is whole.

    Args:
        folder: of the run.
        say: told when it is not what ``latest`` names, and why.

    Raises:
        TrainingError: there are checkpoints, or ``latest``, but none is whole. Nothing is deleted.
    """
    named = named_checkpoint(folder)
    found = _checkpoints(folder)
    if not found and not os.path.lexists(folder / LATEST):
        return None
    refused: list[TrainingError] = []
    for path in found if named is None else [named, *(path for path in found if path != named)]:
        try:
            verify(path)
        except TrainingError as error:
            refused.append(error)
            continue
        if path != named:
            why = f"`{LATEST}` names no checkpoint" if named is None else refused[0].message
            say(f"{why}; going on from {path}, the newest that is whole")
        return path
    first = refused[0] if refused else None
    raise TrainingError(
        f"no checkpoint of this run can be used: {f'{folder / LATEST} names none' if first is None else first.message}",
        expected=f"{LATEST}, naming a folder step-00000000 that is whole",
        hint=(first and first.hint) or "nothing was deleted: restore it, or choose another --out folder",
    )


def load_checkpoint(
    path: Path,
    model: nn.Module,
    optimisers: list[torch.optim.Optimizer],
    average: Mapping[str, Tensor] | None = None,
) -> dict[str, Any]:
    """Load a checkpoint into a model, its optimisers and its average, and return its record.

    That its bytes are those that were written is for `latest_checkpoint` to find out.

    Raises:
        TrainingError: it is damaged, or was made by another architecture or optimiser.
    """
    try:
        record = read_record(path)
        if set(record[FILES]) != {WEIGHTS, OPTIMISER} | ({AVERAGE} if average is not None else set()):
            raise KeyError(f"its files are {', '.join(sorted(record[FILES]))}")
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
    except (*UNREADABLE, IndexError) as error:
        raise TrainingError(
            f"the checkpoint does not fit this run: {path}: {reason_of(error)}",
            expected="the same preset, settings and optimiser",
            hint="start a new --out folder, or resume with the settings of the old one",
        ) from error
    return record


@torch.no_grad()
def fill(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy the tensors of a file into tensors of the same names and shapes, whole or cut into shards.

    Raises:
        RuntimeError: names or shapes differ, or a tensor holds no real numbers.
        SafetensorError: the file is damaged.
        OSError: the file cannot be read.
    """
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
        if names != set(tensors):
            missing, other = sorted(set(tensors) - names)[:3], sorted(names - set(tensors))[:3]
            raise RuntimeError(f"{path.name}: missing {missing}, superfluous {other}")
        for name, tensor in tensors.items():
            shape, kind = file.get_slice(name).get_shape(), file.get_slice(name).get_dtype()
            if kind not in FLOATS:
                raise RuntimeError(f"{path.name}: {name} is of type {kind}, not one of {', '.join(FLOATS)}")
            if list(tensor.shape) != list(shape):
                raise RuntimeError(f"{path.name}: {name} has shape {list(shape)}, not {list(tensor.shape)}")
        for name, tensor in tensors.items():
            local(tensor).copy_(local(like(file.get_tensor(name), tensor)))
