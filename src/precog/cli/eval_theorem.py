"""``precog eval theorem``: Theorem 1 of the paper in numbers, and where it stops."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.registry import find_model, load_backbone
from precog.cli import options
from precog.cli.output import out, print_json, shown
from precog.cli.progress import Counting
from precog.config import expanded, resolve
from precog.errors import InputError
from precog.evaluate.experiment import run
from precog.evaluate.theorem import QUICK, Theorem, TheoremSettings
from precog.text.document import document_text
from precog.text.loading import load_document
from precog.text.sources import find_sources

_USUAL = TheoremSettings()


def theorem(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Real text: a file, or a folder of them.  \\[default: a sample in English]",
            show_default=False,
        ),
    ] = None,
    texts: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Random and real texts, so many of each.  \\[default: {_USUAL.texts}]"),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Tokens of each context.  \\[default: {_USUAL.chunk_tokens}]"),
    ] = None,
    question_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Tokens of each question.  \\[default: {_USUAL.question_tokens}]"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One text of each kind, and short ones.")] = False,
    seed: options.Seed = 0,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Theorem 1 in numbers: exactness, rounding, and where it fails; ends with 1 where what must hold does not.

    Measured on the model, on a small random one of the paper's recurrence, and on a small transformer.
    """
    wanted = {"texts": texts, "chunk_tokens": tokens, "question_tokens": question_tokens, "seed": seed}
    chosen = replace(
        QUICK if quick else _USUAL, **cast(Any, {key: value for key, value in wanted.items() if value is not None})
    )
    text = None if data is None else _read(expanded(data))
    settings = resolve({"model": model, "device": device, "threads": threads})
    files = find_model(settings.model)
    backbone = load_backbone(files, device=settings.device, threads=settings.threads, dtype="float32")
    experiment = Theorem(backbone, text, chosen, model=files)
    with Counting("measurements") as bar:
        report = run(experiment, bar.show)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return 0 if report["holds"] else 1


def _read(path: Path) -> str:
    sources = find_sources([str(path)]).sources
    if not sources:
        raise InputError("there is nothing to read", given=path)
    return "\n\n".join(document_text(load_document(source)) for source in sources)


def _print_report(report: dict[str, object]) -> None:
    names = {"given": shown(str(report["model"])), "diagonal": "diagonal, random", "transformer": "transformer, random"}
    for name, part in cast(dict[str, dict[str, Any]], report["parts"]).items():
        verdict = "[green]holds[/]" if part["holds"] else "[red]does not hold[/]"
        table = Table("claim", "model", "measured", "bound", "", title=f"{name}: {verdict}")
        for bound in part["bounds"]:
            sign = "≤" if bound["kind"] == "at most" else ">"
            said = "yes" if bound["holds"] else "[red]no[/]" if bound["judged"] else "no, not judged"
            limit = f"{sign} {bound['bound']:.3g}"
            table.add_row(bound["name"], names[bound["model"]], f"{bound['value']:.3g}", limit, said)
        out.print(table)
        out.print(f"[dim]{part['meaning']}[/]\n")
