"""``precog memory reindex``: the texts are read again, by another model or encoder."""

from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from precog.cli import options
from precog.cli.memory.naming import User
from precog.cli.output import human_bytes, out, print_json
from precog.cli.progress import Bar
from precog.config import resolve
from precog.memory.place import existing_folder
from precog.memory.reindex import reindex as reindex_memory
from precog.records import ModelChoice


def reindex(
    user: User,
    codec: Annotated[str | None, typer.Option(metavar="fp16|fp32", help="Of the states.", show_default=False)] = None,
    layers: Annotated[str | None, typer.Option(metavar="SUBSET", help="Layers kept.", show_default=False)] = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Read the stored texts again with a new model or encoder; the memory answers as before until it is done."""
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    choice = ModelChoice(settings.model, settings.device, settings.threads)
    with _Reading() as bar:
        report = reindex_memory(
            existing_folder(settings.home, user),
            choice,
            encoder=settings.encoder,
            codec=codec,
            layers=layers,
            on_progress=bar.advance,
        )
    if as_json:
        print_json(report.to_json())
        return 0
    out.print(
        f"[bold]read again[/] {report.num_deposits} deposits: {report.num_states} states, "
        f"{report.num_semantic} semantic states, {human_bytes(report.bytes_on_disk)}"
    )
    return 0


class _Reading(Bar):
    """Deposits that have been read again."""

    def __init__(self) -> None:
        columns = (TextColumn("[bold]deposits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__("", *columns)

    def advance(self, done: int, total: int) -> None:
        """So many of so many."""
        self._bar.update(self._task, completed=done, total=total)
