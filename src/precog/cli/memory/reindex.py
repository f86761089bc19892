"""``precog memory reindex``: the texts are read again, by another model or encoder."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import counted, human_bytes, out, print_json
from precog.cli.progress import Counting
from precog.config import resolve
from precog.memory.place import existing_folder


def reindex(
    user: options.User,
    codec: Annotated[
        str | None,
        typer.Option(
            metavar=options.CODECS, help="How states are stored from now on.  \\[default: as now]", show_default=False
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="SUBSET",
            help="The layers whose states are kept: all, top:N, bottom:N or numbers such as 0,3.  \\[default: as now]",
            show_default=False,
        ),
    ] = None,
    dial_a: options.DialA = None,
    dial_b: options.DialB = None,
    budget: options.Budget = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.Json = False,
) -> int:
    """Read the stored texts again, with a new model, a new encoder or other settings.

    The memory answers as before until it is done. What is not named stays as it is; states that have expired stay so.
    """
    from precog.memory.reindex import reindex as reindex_memory
    from precog.records import ModelChoice

    settings = resolve(
        {"model": model, "device": device, "threads": threads, "dtype": dtype, "template": template, "encoder": encoder}
    )
    choice = ModelChoice.of(settings)
    wanted = {"codec": codec, "layers": layers, "dial_a": dial_a, "dial_b": dial_b, "budget_bytes": budget}
    with Counting("deposits") as bar:
        report = reindex_memory(
            existing_folder(settings.home, user),
            choice,
            encoder=settings.encoder,
            wanted=wanted,
            on_progress=bar.show,
        )
    tell(report.damage)
    if as_json:
        print_json(report.to_json())
        return 0
    out.print(
        f"[bold]read again[/] {counted(report.num_deposits, 'deposit')}: {counted(report.num_states, 'state')}, "
        f"{counted(report.num_semantic, 'semantic state')}, {human_bytes(report.bytes_on_disk)}"
    )
    return 0
