"""``precog backup`` and ``precog restore``: all that a server keeps in one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import counted, err, human_bytes, out, print_json, shown
from precog.cli.progress import Bytes
from precog.config import expanded
from precog.server.backup import back_up
from precog.server.restore import restore as restore_backup
from precog.server.settings import resolve_server


def backup(
    file: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="The backup; its name ends in .tar.zst, or in .tar.gz for gzip instead."
        ),
    ],
    data: options.ServerData = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="U", help="Only what belongs to this user, without keys.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Copy corpora, memories, responses and keys into one file, while the server serves.

    Exits with 1 where a stored record was damaged and had to be left out; the backup stands all the same.
    """
    settings = resolve_server({"data": data})
    with Bytes("backing up") as bar:
        report = back_up(expanded(file), data=settings.data, home=settings.home, user=user, on_bytes=bar.show)
    for line in report.skipped:
        err.print(f"[yellow]left out[/] {shown(line)}: not a file of its own")
    for line in report.damaged:
        err.print(f"[red]damaged[/] {shown(line)}")
    if as_json:
        print_json(report.to_json())
    else:
        memories = f"{report.num_memories:,} {'memory' if report.num_memories == 1 else 'memories'}"
        corpora = f"{report.num_corpora:,} {'corpus' if report.num_corpora == 1 else 'corpora'}"
        size = human_bytes(report.file.stat().st_size)
        out.print(f"[bold]{shown(str(report.file))}[/] {size}: {corpora}, {memories}, {_files(report.num_files)}")
    return 1 if report.damaged else 0


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `precog backup` wrote.")],
    data: options.ServerData = None,
    as_json: options.Json = False,
) -> int:
    """Make the folders of a backup again; nothing that is there is overwritten."""
    settings = resolve_server({"data": data})
    with Bytes("restoring") as bar:
        report = restore_backup(expanded(file), data=settings.data, home=settings.home, on_bytes=bar.show)
    if as_json:
        print_json(report.to_json())
    else:
        out.print(f"[bold]restored[/] a backup of {shown(report.made_at)}, {_files(report.num_files)} beside:")
        for place in report.places:
            out.print(f"  {shown(str(place))}")
    return 0


def _files(count: int) -> str:
    return counted(count, "other file")
