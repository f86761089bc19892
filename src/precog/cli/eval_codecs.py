"""``precog eval codecs``: what it costs to store states in fewer bits."""

from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.output import human_bytes, human_seconds, out, print_json
from precog.cli.progress import Counting
from precog.config import resolve
from precog.evaluate.codecs import evaluate_codecs
from precog.evaluate.squad_data import read_questions, sample_questions
from precog.state import codec_named


def codecs(
    data: options.SquadFile,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    names: Annotated[
        str, typer.Option("--codecs", metavar="C,C,…", help="Codecs to compare with fp32.")
    ] = options.CODECS.replace("|", ","),
    answers: Annotated[bool, typer.Option(help="Answer the questions, too; else logits and states only.")] = True,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Compare codecs of states: bytes, loading, error of states and logits, and answers, on the same questions."""
    settings = resolve({"model": model, "device": device, "threads": threads})
    chosen = names.split(",")
    for name in chosen:
        codec_named(name)  # refused before a model is loaded
    questions = sample_questions(read_questions(data), limit, seed)
    backbone = load_backbone(settings.model, encode_mode="once", device=settings.device, threads=settings.threads)
    with Counting("questions") as bar:
        report = evaluate_codecs(
            questions, backbone, chosen, answers=answers, on_question=lambda done: bar.show(done, len(questions))
        )
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return 0


def _print_report(report: dict[str, object]) -> None:
    title = f"States of {report['model']} in fewer bits, {report['n']} questions, {report['question_tokens']} tokens"
    columns = ("codec", "bytes", "load", "|Δh|/|h|", "max |Δlogit|", "mean", "same word", "EM", "F1")
    table = Table(*columns, title=title)
    for name, row in cast(dict[str, dict[str, Any]], report["codecs"]).items():
        table.add_row(
            name,
            human_bytes(row["state_bytes"]),
            human_seconds(row["load_sec"]),
            f"{row['mean_layer_error']:.2g}",
            f"{row['max_abs_logit_error']:.2g}",
            f"{row['mean_abs_logit_error']:.2g}",
            f"{100 * row['argmax_agreement']:.1f} %",
            *("" if row[key] is None else f"{row[key]['value']:.1f}" for key in ("em", "f1")),
        )
    out.print(table)
