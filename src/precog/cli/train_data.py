"""``precog train-data``: texts, conversations and SQuAD to prepared sets that ``precog train`` reads."""

import os
from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import err, out, print_json, shown
from precog.config import expanded
from precog.errors import UsageError
from precog.train.data.documents import data_files, endings, passed_over
from precog.train.data.prepare import PrepareOptions, prepare, show
from precog.train.data.rows import CONTEXT_TOKENS, ROW_TOKENS

MOST_SHOWN = 10_000


def train_data(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", parser=expanded, help="Where the prepared sets go.")],
    text: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="Texts or folders: .txt, .md, .jsonl, .gz, .xz, .zst."),
    ] = None,
    squad: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="SQuAD training files.")] = None,
    squad_copies: Annotated[int, typer.Option(help="Remixes of each: other sentences, entities, wordings.")] = 3,
    dialogue: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Conversations: JSON lines or Schema-Guided Dialogue.")
    ] = None,
    recall: Annotated[int, typer.Option(help="Chunks of key–value facts.")] = 0,
    table: Annotated[int, typer.Option(help="Chunks of small tables.")] = 0,
    copy: Annotated[int, typer.Option(help="Chunks of random words to continue.")] = 0,
    stream: Annotated[bool, typer.Option("--stream", help="Also write token streams.")] = False,
    workers: Annotated[int, typer.Option(help="Processes.")] = os.cpu_count() or 1,
    slices: Annotated[int, typer.Option(help="Jobs per text file.")] = 12,
    seed: options.Seed = 0,
    max_questions_per_chunk: Annotated[int, typer.Option(help="Questions made from one chunk.")] = 12,
    counterfactual: Annotated[float, typer.Option(help="Share of chunks with replaced entities.")] = 0.5,
    unanswerable: Annotated[float, typer.Option(help="Share of rows whose chunk does not answer.")] = 0.1,
    context_tokens: Annotated[int, typer.Option(help="Width of a chunk's row.")] = CONTEXT_TOKENS,
    row_tokens: Annotated[int, typer.Option(help="Width of a question's row; longer ones are dropped.")] = ROW_TOKENS,
    rows: Annotated[int, typer.Option("--show", metavar="N", help="Print so many rows of every set.")] = 0,
    as_json: options.Json = False,
) -> int:
    """Cut texts into chunks and make questions about them."""
    if not 0 <= rows <= MOST_SHOWN:
        raise UsageError("--show is out of range", given=rows, expected=f"0–{MOST_SHOWN}")
    files: list[Path] = []
    foreign: list[Path] = []
    for path in text or ():
        found, others = data_files(path) if path.is_dir() else ([path], [])
        if others:
            _say(passed_over(path, others))
        files += found
        foreign += others
    stats = prepare(
        PrepareOptions(
            out=folder,
            texts=tuple(files),
            dialogues=tuple(dialogue or ()),
            squad=tuple(squad or ()),
            squad_copies=squad_copies,
            recall=recall,
            table=table,
            copy=copy,
            stream=stream,
            workers=workers,
            slices=slices,
            seed=seed,
            max_questions_per_chunk=max_questions_per_chunk,
            counterfactual=counterfactual,
            unanswerable=unanswerable,
            context_tokens=context_tokens,
            row_tokens=row_tokens,
        ),
        _say,
    )
    for prepared in sorted((folder / "train").iterdir()) if rows else []:
        out.print(f"[bold]{shown(prepared.name)}[/]")
        for line in show(prepared, rows, seed):
            out.print(shown(line))
    if as_json:
        print_json({**stats, "passed_over": endings(foreign)})
    return 0


def _say(line: str) -> None:
    err.print(line, markup=False, highlight=False)
