"""Printing of answers by length: what ``precog eval nq`` and ``precog eval long`` have in common."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from precog.cli.eval_rows import gain_cell
from precog.cli.output import human_seconds, out
from precog.evaluate.passages import WAYS


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
    columns = ("n", "read", "state", "same", "chunk", "ΔF1")
    table = Table(first, *(["data"] if shares else []), *columns, title=title)
    for name, row in rows.items():
        share = [f"{100 * shares[name]:.0f} %"] if shares else []
        cells = ["0"] if row is None else _cells(row)
        table.add_row(escape(name), *share, *cells)
    out.print(table)


def _cells(row: Mapping[str, Any]) -> list[str]:
    f1 = {way: f"{row[way]['f1']:.1f}" for way in WAYS}
    same = f"{100 * row['agreement']:.0f} %"
    return [f"{row['n']:,}", f1["in_context"], f1["whole"], same, f1["chunked"], gain_cell(row["gap_chunked"])]


def print_overall(overall: Mapping[str, Any]) -> None:
    """What holds over all lengths."""
    out.print(f"one state of the whole passage against reading it: ΔF1 {gain_cell(overall['gap_whole'])}")
    out.print(f"best chunk against reading the passage: ΔF1 {gain_cell(overall['gap_chunked'])}, a gap of retrieval")
    times = " and ".join(human_seconds(overall[way]["mean_latency_sec"]) for way in ("in_context", "whole"))
    out.print(f"an answer takes {times} on average: in context, and from a state")
