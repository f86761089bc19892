"""How far a run is: a bar on a terminal, a line now and then elsewhere, nothing in the other processes of a run."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TypeVar

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from precog.cli.output import err

LINE_EVERY_SEC = 10.0
EVALUATED = "evaluation batch"
"""What is counted while a model in training is measured on what is held out."""
SHOWN = {
    "loss": "loss {:.3f}",
    "tokens_per_sec": "{:,.0f} tokens/s",
    "mfu": "MFU {:.1%}",
    "rows_per_sec": "{:,.0f} rows/s",
    "kept": "{:.1%} kept",
}


def is_first_process() -> bool:
    """Whether this process is the one that speaks: the only one, or the first that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str) -> None:
    """A line on stderr, from the first process alone."""
    if is_first_process():
        err.print(text, markup=False)


B = TypeVar("B", bound="Bar")


class Bar:
    """A bar on stderr while a command works; nothing where stderr is no terminal.

    Args:
        description: of the work, until it changes.
        columns: what stands in the line.
        is_shown: False where another process shows it.
        fields: what the columns show beside the work.
    """

    def __init__(self, description: str, *columns: ProgressColumn, is_shown: bool = True, **fields: str) -> None:
        self._bar = Progress(*columns, console=err, transient=True, disable=not (is_shown and err.is_terminal))
        self._task = self._bar.add_task(description, total=None)
        self._bar.tasks[0].fields.update(fields)

    def __enter__(self: B) -> B:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


class Counting(Bar):
    """So many of so many are done, and the time that is left."""

    def __init__(self, description: str) -> None:
        columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(description, *columns)
        self._description = description

    def show(self, done: int, total: int, description: str | None = None) -> None:
        """So many are done; ``description`` where the work has become another."""
        self._bar.update(self._task, description=description or self._description, completed=done, total=total)


class Bytes(Bar):
    """So many bytes of so many are done, and the time that is left."""

    def __init__(self, description: str) -> None:
        columns = (TextColumn("[bold]{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        super().__init__(description, *columns)

    def show(self, done: int, total: int) -> None:
        """So many are done."""
        self._bar.update(self._task, completed=done, total=total)


class RunProgress(Bar):
    """Shows the step, the loss, the speed and the time left, on stderr."""

    def __init__(self) -> None:
        self._noun = "step"
        self._is_line = is_first_process() and not err.is_terminal
        super().__init__(
            "",
            TextColumn("[bold]{task.fields[noun]}"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            is_shown=is_first_process(),
            told="",
            noun=self._noun,
        )
        self._first: tuple[int, float] | None = None
        self._last_line_sec = time.monotonic()

    def __call__(self, done: int, total: int, metrics: Mapping[str, object]) -> None:
        """After a step: how many are done, of how many, and any of the figures in `SHOWN`."""
        self._show("step", done, total, metrics)

    def of(self, noun: str) -> Callable[[int, int, Mapping[str, object]], None]:
        """The same for something else than steps, which comes between or after them."""
        return partial(self._show, noun)

    def _show(self, noun: str, done: int, total: int, metrics: Mapping[str, object]) -> None:
        if noun != self._noun:
            self._noun, self._first = noun, None
        now = time.monotonic()
        self._first = self._first or (done, now)
        parts = _parts(metrics)
        first, since = self._first
        if done > first:
            parts.append(f"{_clock((now - since) / (done - first) * (total - done))} left")
        told = " · ".join(parts)
        self._bar.update(self._task, completed=done, total=total, told=told, noun=noun)
        if self._is_line and now - self._last_line_sec >= LINE_EVERY_SEC:
            self._last_line_sec = now
            err.print(" · ".join([f"{noun} {done:,} of {total:,}", *parts]), markup=False)


def _parts(metrics: Mapping[str, object]) -> list[str]:
    parts = []
    for name, form in SHOWN.items():
        value = metrics.get(name)
        if isinstance(value, int | float):
            parts.append(form.format(value))
    return parts


def _clock(count_sec: float) -> str:
    minutes, seconds = divmod(round(count_sec), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
