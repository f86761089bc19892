"""``precog eval composition``: rules of composition, compared on the same questions and chunks."""

from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.output import human_seconds, out, print_json
from precog.cli.progress import Counting
from precog.config import resolve
from precog.engine.grounded import GroundedSettings
from precog.evaluate.composer import DEFAULT_WAYS, CompositionSettings, Way
from precog.evaluate.composition import evaluate_composition
from precog.evaluate.squad_data import read_questions
from precog.state.codec import codec_named


def composition(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    chunks: Annotated[int, typer.Option(metavar="N", help="Paragraphs of each question, its own among them.")] = 3,
    rules: Annotated[
        str,
        typer.Option(
            metavar="R,R,…",
            help="Rows: in_context, best, or mean, concat, permute, mix, replay; @T is a temperature, +layer renorms.",
        ),
    ] = ",".join(DEFAULT_WAYS),
    codec: options.Codec = "fp16",
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Compare rules of composition: nearness to reading the same chunks, answers, time and bytes."""
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    ways = tuple(map(Way.parse, rules.split(",")))
    codec_named(codec)
    CompositionSettings(ways, chunks, codec)  # refused before a model is loaded
    everything = read_questions(data)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    chosen = CompositionSettings(ways, chunks, codec, GroundedSettings.from_card(backbone.card.decoding))
    with Counting("questions") as bar:
        report = evaluate_composition(everything, limit, seed, backbone, chosen, settings.encoder, bar.show)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return 0


def _print_report(report: dict[str, object]) -> None:
    title = f"Composition of {report['chunks']} chunks, {report['n']} questions"
    columns = ("rule", "EM/F1", "free", "|Δh|/|h|", "|Δlogit|", "time", "read", "kB")
    table = Table(*columns, title=title)
    for name, row in cast(dict[str, dict[str, Any]], report["rules"]).items():
        table.add_row(
            name,
            *(f"{row[kind]['em']:.1f}/{row[kind]['f1']:.1f}" for kind in ("grounded", "free")),
            *("" if row[key] is None else f"{row[key]:.3f}" for key in ("mean_state_error", "mean_max_logit_error")),
            human_seconds(row["median_latency_sec"]),
            f"{row['mean_tokens_read']:.0f}",
            f"{row['mean_bytes_loaded'] / 1000:.0f}",
        )
    out.print(table)
    share = 100 * cast(float, report["gold_is_best"])
    out.print(f"the question's own paragraph is ranked first for {share:.0f} % of the questions")
