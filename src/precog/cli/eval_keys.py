"""``precog eval keys``: what paragraphs are found by."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.cli import options
from precog.cli.eval_rows import measured
from precog.cli.output import counted, human_bytes, human_seconds, out, print_json
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.evaluate.keys import TOP_K, Keys
from precog.evaluate.natural_questions_data import read_natural_questions
from precog.evaluate.squad_data import read_questions
from precog.evaluate.subset import sample_questions

_READERS = {"squad": read_questions, "nq": read_natural_questions}


def keys(
    data: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Questions with their paragraphs, all of which are searched (.gz allowed)."),
    ],
    form: Annotated[
        str,
        typer.Option("--form", metavar="|".join(_READERS), help="What file it is: SQuAD v1.1 or Natural Questions."),
    ] = "squad",
    limit: options.Limit = None,
    seed: options.Seed = 0,
    keys_folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where keys are kept for the next time.", show_default=False)
    ] = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """How often a question's paragraph is found: by its text, its title, and questions made from it."""
    if form not in _READERS:
        raise UsageError("--form: no such file", given=form, expected=" or ".join(_READERS))
    settings = resolve({"encoder": encoder})
    everything = _READERS[form](data)
    questions = sample_questions(everything, limit, seed)
    folder = None if keys_folder is None else expanded(keys_folder)
    report = measured(Keys(questions, everything, settings.encoder, folder))
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    return 0


def _print_report(report: dict[str, Any]) -> None:
    collection = cast(dict[str, Any], report["collection"])
    title = f"{counted(report['n'], 'question')}, {counted(collection['paragraphs'], 'paragraph')}"
    table = Table("search", "keys of", "words of", *(f"@{k}" for k in TOP_K), "Δ@1 to text", "time", title=title)
    for row in report["rows"]:
        gain = {name: 100 * value for name, value in row["recall1_gain"].items()}
        table.add_row(
            row["retrieval"],
            row["keys"] or "",
            row["words"] or "",
            *(f"{100 * row['recall'][str(k)]:.1f}" for k in TOP_K),
            f"{gain['value']:+.1f} ({gain['low']:+.1f}, {gain['high']:+.1f})",
            human_seconds(row["search_sec"]),
        )
    out.print(table)
    for kind, count in collection["keys_per_paragraph"].items():
        size = human_bytes(collection["key_bytes_per_paragraph"][kind])
        out.print(f"{kind}: {count:.1f} keys a paragraph, {size}")
