"""``precog train``: prepared data to a checkpoint."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from precog.backbones.registry import choose_device
from precog.backbones.tenns.config import TennsConfig
from precog.cli import options
from precog.cli.output import err, print_json
from precog.cli.output import out as out_console
from precog.config import resolve
from precog.errors import UsageError
from precog.train.settings import TrainSettings
from precog.train.start import MODEL_FOLDER, start


def train(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Prepared data: see `precog train-data`.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Checkpoints and metrics; a run found there is resumed.")],
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Shape of the model: tiny, tiny-outer, base, paper.")
    ] = "base",
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = 1000,
    mixture: Annotated[Path | None, typer.Option(metavar="FILE", help="Shares of the data, as JSON.")] = None,
    initial: Annotated[Path | None, typer.Option(metavar="FILE", help="Safetensors weights to start from.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other training setting, such as lr=1e-3."),
    ] = None,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the blocks.")] = False,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Train a model on prepared data; run it again to resume."""
    import torch

    resolved = resolve({"device": device, "threads": threads})
    if resolved.threads is not None:
        torch.set_num_threads(resolved.threads)
    values: dict[str, Any] = {"steps": steps}
    for text in setting or []:
        key, separator, value = text.partition("=")
        if not separator:
            raise UsageError("--set takes KEY=VALUE", given=text, expected="such as lr=1e-3")
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError):
            values[key] = value
    last = start(
        TennsConfig.preset(preset),
        TrainSettings.from_dict(values),
        data,
        out,
        mixture,
        initial,
        choose_device(resolved.device),
        compiled,
        lambda metrics: err.print_json(json.dumps(metrics), indent=None, highlight=False),
    )
    if as_json:
        print_json(last)
    else:
        out_console.print(f"trained: `precog ask … --model {out / MODEL_FOLDER}` uses it", markup=False)
    return 0
