"""``precog reproduce``: every table and figure of the paper, measured or calculated again, in one report."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import counted, err, human_seconds, out, print_json, shown
from precog.cli.progress import Counting
from precog.config import expanded, resolve
from precog.evaluate.paper.apparatus import Choice
from precog.evaluate.paper.programme import FULL, PROGRAMME, QUICK
from precog.evaluate.paper.run import Wanted, reproduce_paper

MOST_BY_ITSELF = 8
LINE_EVERY_SEC = 60.0


def reproduce(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the report goes; an old run is gone on with.")
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the data sets lie; --quick has samples of its own.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few questions: some minutes on a laptop.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="NAME,NAME,…", help=f"Only these: {', '.join(PROGRAMME)}.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", help="That share the work; one per core if left out, at most 8.", min=1, max=256),
    ] = None,
    seed: options.Seed = 0,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Run the paper's experiments and calculations again, and write one report: the paper's figure, ours, and why."""
    given = {"model": model, "device": device, "threads": threads, "dtype": dtype, "encoder": encoder}
    settings = resolve(given)
    wanted = Wanted(
        folder=expanded(folder),
        data=None if data is None else expanded(data),
        sizes=QUICK if quick else FULL,
        names=[] if only is None else [name.strip() for name in only.split(",")],
        processes=processes or min(_cores(), MOST_BY_ITSELF),
        choice=Choice(settings.model, settings.device, settings.threads, settings.dtype, settings.encoder, seed),
    )
    started = time.perf_counter()
    with Counting("preparing") as bar:
        paths = reproduce_paper(wanted, _Told(bar))
    spent_sec = time.perf_counter() - started
    if as_json:
        written = {name: str(getattr(paths, name)) for name in ("html", "markdown", "results", "figures")}
        print_json({"written": written, "quick": quick, "seconds": spent_sec})
    else:
        out.print(f"report   {shown(str(paths.html))}")
        out.print(f"as text  {shown(str(paths.markdown))}")
        out.print(f"figures  {shown(str(paths.figures))}, each with its numbers")
        out.print(f"results  {shown(str(paths.results))}")
        out.print(f"in {human_seconds(spent_sec)}")
    return 0


class _Told:
    """How far a run is: a bar, or where there is no terminal a line now and then."""

    def __init__(self, bar: Counting) -> None:
        self._bar = bar
        self._last_sec = float("-inf")

    def __call__(self, done: int, total: int, what: str) -> None:
        self._bar.show(done, total, what)
        now = time.monotonic()
        if not err.is_terminal and total and now - self._last_sec >= LINE_EVERY_SEC:
            self._last_sec = now
            err.print(f"{done:,} of {counted(total, 'item')} done: {what}", markup=False)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
