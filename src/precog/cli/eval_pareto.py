"""``precog eval pareto``: answers against bytes, by codec and layers kept."""

from typing import Annotated, Any, cast

import typer

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_rows import measured, print_rows, words
from precog.cli.output import counted, human_bytes, print_json
from precog.config import resolve
from precog.evaluate.pareto import CODECS, Pareto, ParetoSettings
from precog.evaluate.squad_data import read_questions, sample_questions


def pareto(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    names: Annotated[
        str, typer.Option("--codecs", metavar="C,C,…", help="Codecs; the others are compared with the first.")
    ] = ",".join(CODECS),
    layers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUBSET",
            help="Layers kept beside all: bottom:N, top:N, alternate, none or a list; may be given again.  "
            "\\[default: the lower three quarters, half and quarter]",
            show_default=False,
        ),
    ] = None,
    free: options.Free = False,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """F1 against bytes: every codec with every subset of layers, on the same questions."""
    settings = resolve({"model": model, "device": device, "threads": threads})
    chosen = ParetoSettings(words(names), tuple(layers or ()), free, seed)
    questions = sample_questions(read_questions(data), limit, seed)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    report = measured(Pareto(questions, backbone, chosen))
    if as_json:
        print_json(report)
        return 0
    rows = {
        name: {**row, "size": human_bytes(row["state_bytes"]), "front": "●" if row["on_front"] else ""}
        for name, row in cast(dict[str, dict[str, Any]], report["rows"]).items()
    }
    title = f"F1 against bytes on SQuAD v1.1, {counted(len(questions), 'question')}"
    against = str(report["against"])
    print_rows(title, rows, {"bytes": "size", "front": "front"}, against=against)
    return 0
