"""``precog eval temperature``: the softmax temperature of composed states."""

from typing import Annotated, Any, cast

import typer

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.eval_rows import measured, print_rows, real_numbers
from precog.cli.output import counted, print_json
from precog.config import resolve
from precog.evaluate.squad_data import read_questions, sample_questions
from precog.evaluate.temperature import Temperature, TemperatureSettings

_DEFAULTS = TemperatureSettings()


def temperature(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    temperatures: Annotated[
        str, typer.Option(metavar="T,T,…", help="Temperatures of the softmax over scores; 1 in the paper.")
    ] = ",".join(f"{value:g}" for value in _DEFAULTS.temperatures),
    top_k: Annotated[int, typer.Option(metavar="K", help="States that are composed.")] = _DEFAULTS.top_k,
    context: Annotated[
        str,
        typer.Option(
            metavar="gold|retrieved", help="Whether the question's own paragraph is put among what was found."
        ),
    ] = _DEFAULTS.context,
    free: options.Free = False,
    codec: options.Codec = "fp16",
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Mean of the best few states at several temperatures of its weights, on the same questions."""
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    chosen = TemperatureSettings(real_numbers("--temperatures", temperatures), top_k, context, codec, free, seed)
    everything = read_questions(data)
    questions = sample_questions(everything, limit, seed)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    report = measured(Temperature(questions, everything, backbone, chosen, settings.encoder))
    if as_json:
        print_json(report)
        return 0
    rows = {
        name: {**row, "weight": f"{row['mean_top_weight']:.2f}"}
        for name, row in cast(dict[str, dict[str, Any]], report["rows"]).items()
    }
    title = f"Temperature of the mean of {top_k} states, SQuAD v1.1, {counted(len(questions), 'question')}"
    print_rows(title, rows, {"largest weight": "weight"}, against=f"T = {report['against']}")
    return 0
