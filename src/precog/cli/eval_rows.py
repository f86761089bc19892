"""What the commands that measure rows of answers share: lists in options, running with a bar, printing the rows."""

from collections.abc import Mapping
from typing import Any

from rich.table import Column, Table

from precog.cli.output import out
from precog.cli.progress import Counting
from precog.errors import UsageError
from precog.evaluate.experiment import Experiment, run

Row = Mapping[str, Any]


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """A list such as 1,2,3.

    Raises:
        UsageError: something in it is no whole number above 0.
    """
    names = words(text)
    if not names or not all(name.isascii() and name.isdecimal() and 0 < int(name) < 10**9 for name in names):
        raise UsageError(f"{option} is a list of whole numbers above 0", given=text, expected="such as 1,2,3")
    return tuple(map(int, names))


def real_numbers(option: str, text: str) -> tuple[float, ...]:
    """A list such as 1,0.3.

    Raises:
        UsageError: something in it is no number.
    """
    try:
        return tuple(float(name) for name in words(text))
    except ValueError as error:
        raise UsageError(f"{option} is a list of numbers", given=text, expected="such as 1,0.3,0.1") from error


def words(text: str) -> tuple[str, ...]:
    """A list such as fp16,int8."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def measured(experiment: Experiment, noun: str = "questions") -> dict[str, object]:
    """The report of an experiment, with a bar on stderr while it runs."""
    with Counting(noun) as bar:
        return run(experiment, bar.show)


def gain_cell(gain: Mapping[str, float]) -> str:
    """A difference of F1 with its interval, short enough for a terminal of 80 columns."""
    return f"{gain['value']:+.1f} ({gain['low']:+.0f}, {gain['high']:+.0f})"


def print_rows(title: str, rows: Mapping[str, Row], facts: Mapping[str, str], *, against: str) -> None:
    """A table of rows: their name, some facts, scores, and what each gains over one of them.

    Args:
        title: of the table.
        rows: by name.
        facts: column ▸ key of a row, of what is already a text or becomes one by `str`.
        against: the row that they are compared with.
    """
    table = Table(Column("", no_wrap=True), *facts, "EM", "F1", "95 %", f"ΔF1 to {against}", title=title)
    for name, row in rows.items():
        low, high = row["f1_interval"]
        scores = (f"{row['em']:.1f}", f"{row['f1']:.1f}", f"{low:.0f} – {high:.0f}")
        table.add_row(name, *(str(row[key]) for key in facts.values()), *scores, gain_cell(row["f1_gain"]))
    out.print(table)
