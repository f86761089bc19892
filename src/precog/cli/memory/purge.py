"""``precog memory purge``: all of a user's memory goes."""

import sys
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import counted, err, human_bytes, out, print_json, shown
from precog.config import resolve
from precog.errors import UsageError
from precog.memory.place import existing_folder
from precog.memory.purge import purge as purge_memory


def purge(
    user: options.User,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before everything is removed.")] = False,
    as_json: options.Json = False,
) -> int:
    """Remove everything of one user: the folder is overwritten and deleted."""
    folder = existing_folder(resolve({}).home, user)
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError("everything of this user would be removed", given=user, hint="say --yes to do so")
        err.print(f"Remove everything that is remembered of [bold]{shown(user)}[/]? \\[y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            err.print("nothing was removed")
            return 1
    done = purge_memory(folder)
    if as_json:
        told = {"files": done.num_files, "bytes": done.num_bytes, "outside": done.outside}
        print_json({"purged": True, **told, "kept": done.kept, "leftovers": done.leftovers})
        return 0
    out.print(f"[bold]removed[/] {counted(done.num_files, 'file')} ({human_bytes(done.num_bytes)})")
    for name in done.kept:
        out.print(f"[yellow]kept:[/] {shown(name)} is not the memory's")
    if done.num_linked:
        out.print(f"[yellow]outside:[/] {shown(done.outside[0])}")
    for line in done.leftovers:
        err.print(f"[yellow]note:[/] of an earlier purge: {shown(line)}")
    return 0
