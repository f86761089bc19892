"""What the commands that train share: options, and settings from them and from ``--set``."""

import dataclasses
import difflib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from precog.backbones.card import is_unicode
from precog.config import expanded
from precog.errors import TrainingError, UsageError
from precog.train.settings import TrainSettings

Lr = Annotated[float | None, typer.Option("--lr", metavar="X", help="Peak learning rate.", show_default=False)]
BatchChunks = Annotated[
    int | None,
    typer.Option("--batch-chunks", metavar="N", help="Chunks per device and micro-batch.", show_default=False),
]
QuestionsPerChunk = Annotated[
    int | None,
    typer.Option("--questions-per-chunk", metavar="N", help="Questions asked of a chunk.", show_default=False),
]
Accumulate = Annotated[
    int | None, typer.Option("--accumulate", metavar="N", help="Micro-batches per step.", show_default=False)
]
Optimiser = Annotated[
    str | None,
    typer.Option(
        "--optimiser",
        metavar="muon|adamw",
        help="Muon for matrices, or AdamW for everything.",
        show_default=False,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="float32|bfloat16",
        help="Compute dtype; weights stay FP32.  \\[default: bfloat16 on CUDA, else float32]",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting, such as warmup_steps=50.", show_default=False),
]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the blocks: slower to start, faster to run.")]


def chosen_settings(setting: list[str] | None, **options: object) -> dict[str, Any]:
    """The settings a command line names, by key.

    Raises:
        UsageError: ``--set`` is malformed, names no setting, or says again what an option says.
    """
    values = {key: value for key, value in options.items() if value is not None}
    known = [field.name for field in dataclasses.fields(TrainSettings)]
    for text in setting or []:
        key, separator, value = text.partition("=")
        if not separator:
            raise UsageError("--set takes KEY=VALUE", given=text, expected="such as warmup_steps=50")
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else None
            raise UsageError("--set: there is no such setting", given=key, expected=", ".join(known), hint=hint)
        if key in values:
            raise UsageError("a setting is given twice", given=f"{key}: {values[key]} and {value}")
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError):
            values[key] = value
    return values


SMALL_BATCHES = {"batch_chunks": 4, "questions_per_chunk": 4, "stream_rows": 2}
"""What a CPU trains on from scratch, where a batch of twice the size takes twice the time."""


def with_defaults(values: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Settings for people rather than for experiments: what nobody named follows from the steps and the device.

    A short run warms up shortly, ten checkpoints bound what a killed run loses, and CUDA computes in BF16.
    """
    steps = values["steps"]
    if not isinstance(steps, int):
        return dict(values)
    chosen = {
        "warmup_steps": min(100, max(1, steps // 10)),
        "save_every_steps": max(10, steps // 10),
        "log_every_steps": 10 if steps > 20 else 1,
        "dtype": "bfloat16" if device.type == "cuda" else "float32",
    }
    return {**chosen, **values}


def checked(make: Callable[[Mapping[str, Any]], TrainSettings], values: Mapping[str, Any]) -> TrainSettings:
    """Settings from the values of a command line.

    Raises:
        UsageError: a value is out of range.
    """
    try:
        return make(values)
    except TrainingError as error:
        raise UsageError(error.message, given=error.given, expected=error.expected, hint=error.hint) from error


def check_name(name: str, what: str = "--name", hint: str | None = None) -> None:
    """Raises UsageError when a name cannot be written into a card."""
    if not is_unicode(name):
        raise UsageError(f"{what} is not valid Unicode", given=ascii(name), hint=hint)


def existing(text: str, option: str) -> Path:
    """The path an option names.

    Raises:
        UsageError: nothing is there.
    """
    path = expanded(text)
    if not path.exists():
        raise UsageError(f"{option}: nothing is there", given=path, expected="a file or folder")
    return path
