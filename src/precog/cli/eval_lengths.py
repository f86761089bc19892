"""Printing of answers by length: what ``precog eval nq`` and ``precog eval long`` have in common."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from precog.cli.eval_rows import gain_cell
from precog.cli.output import human_seconds, out


def print_lengths(
    title: str, first: str, rows: Mapping[str, Mapping[str, Any] | None], shares: Mapping[str, float] | None = None
) -> None:
    """A table of bins: F1 of every way, and what the two others lose against reading in context.

    Args:
        title: of the table.
        first: what the bins are of.
        rows: bin ▸ summary; None for one that holds nothing.
        shares: of the data in each bin, where they mean something.
    """
    columns = (
        "n",
        "in context",
        "one state",
        "gap",
        "same answer",
        "best chunk",
        "gap",
        "chunks",
        "in context",
        "inject",
    )
    table = Table(first, *(["of the data"] if shares else []), *columns, title=title)
    for name, row in rows.items():
        share = [f"{100 * shares[name]:.1f} %"] if shares else []
        if row is None:
            table.add_row(name, *share, "0")
            continue
        table.add_row(
            name,
            *share,
            f"{row['n']:,}",
            f"{row['in_context']['f1']:.1f}",
            f"{row['whole']['f1']:.1f}",
            gain_cell(row["gap_whole"]),
            f"{100 * row['agreement']:.1f} %",
            f"{row['chunked']['f1']:.1f}",
            gain_cell(row["gap_chunked"]),
            f"{row['mean_chunks']:.1f}",
            *(human_seconds(row[way]["mean_latency_sec"]) for way in ("in_context", "whole")),
        )
    out.print(table)


NOTE = (
    "F1; one state: of the whole passage, which reads the same tokens through the same recurrence as in context; "
    "best chunk: a gap of retrieval, not of injection"
)
