"""``precog eval depth``: answers from the states of some layers only."""

from typing import Annotated, Any, cast

import typer

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_rows import measured, print_rows
from precog.cli.output import counted, human_bytes, print_json
from precog.config import resolve
from precog.evaluate.depth import Depth, DepthSettings
from precog.evaluate.squad_data import read_questions, sample_questions


def depth(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUBSET",
            help="Layers kept: all, none, alternate, bottom:N, top:N or a list; may be given again.  "
            "\\[default: the paper's eight, scaled to the model]",
            show_default=False,
        ),
    ] = None,
    free: options.Free = False,
    codec: options.Codec = "fp16",
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Injection depth: answer from the states of some layers, the others starting empty, on the same questions."""
    settings = resolve({"model": model, "device": device, "threads": threads})
    chosen = DepthSettings(tuple(layers or ()), codec, free, seed)
    questions = sample_questions(read_questions(data), limit, seed)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    report = measured(Depth(questions, backbone, chosen))
    if as_json:
        print_json(report)
        return 0
    rows = {
        name: {**row, "size": human_bytes(row["state_bytes"])}
        for name, row in cast(dict[str, dict[str, Any]], report["rows"]).items()
    }
    title = f"Injection depth on SQuAD v1.1, {counted(len(questions), 'question')}"
    print_rows(title, rows, {"layers": "num_layers", "bytes": "size"}, against="all")
    return 0
