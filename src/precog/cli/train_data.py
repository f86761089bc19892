"""``precog train-data``: texts and SQuAD to prepared sets that ``precog train`` reads."""

import argparse
import os
from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import out, print_json, shown
from precog.errors import StorageError
from precog.train.data.prepare import prepare, show


def train_data(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the prepared sets go.")],
    text: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE…", help=".txt or .jsonl, plain, .gz or .xz.")
    ] = None,
    squad: Annotated[Path | None, typer.Option(metavar="FILE", help="SQuAD v1.1 training file.")] = None,
    squad_copies: Annotated[int, typer.Option(help="Copies of SQuAD with replaced entities.")] = 3,
    recall: Annotated[int, typer.Option(help="Chunks of key–value facts.")] = 0,
    table: Annotated[int, typer.Option(help="Chunks of small tables.")] = 0,
    copy: Annotated[int, typer.Option(help="Chunks of random words to continue.")] = 0,
    stream: Annotated[bool, typer.Option("--stream", help="Also write token streams.")] = False,
    workers: Annotated[int, typer.Option(help="Processes.")] = os.cpu_count() or 1,
    slices: Annotated[int, typer.Option(help="Jobs per text file.")] = 12,
    seed: options.Seed = 0,
    max_questions_per_chunk: Annotated[int, typer.Option(help="Questions made from one chunk.")] = 12,
    counterfactual: Annotated[float, typer.Option(help="Share of chunks with replaced entities.")] = 0.5,
    rows: Annotated[int, typer.Option("--show", metavar="N", help="Print so many rows of every set.")] = 0,
    as_json: options.Json = False,
) -> int:
    """Cut texts into chunks and make questions about them."""
    arguments = argparse.Namespace(
        text=text or [],
        squad=squad,
        squad_copies=squad_copies,
        recall=recall,
        table=table,
        copy=copy,
        stream=stream,
        out=folder,
        workers=workers,
        slices=slices,
        seed=seed,
        max_questions_per_chunk=max_questions_per_chunk,
        counterfactual=counterfactual,
        show=rows,
    )
    try:
        stats = prepare(arguments)
    except OSError as error:
        raise StorageError("the prepared data cannot be written", given=folder, hint=str(error)) from error
    for prepared in sorted((folder / "train").iterdir()) if rows else []:
        out.print(f"[bold]{shown(prepared.name)}[/]")
        for line in show(prepared, rows, seed):
            out.print(shown(line))
    if as_json:
        print_json(stats)
    return 0
