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
from precog.server.outside import forget_responses_of_memory
from precog.server.settings import resolve_server


def purge(
    user: options.User,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before everything is removed.")] = False,
    as_json: options.Json = False,
) -> int:
    """Remove everything of one user: the folder is overwritten and deleted."""
    folder, server = existing_folder(resolve({}).home, user), resolve_server()
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError("everything of this user would be removed", given=user, hint="say --yes to do so")
        err.print(f"Remove everything that is remembered of [bold]{shown(user)}[/]? \\[y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            err.print("nothing was removed")
            return 1
    done = purge_memory(folder)
    responses = forget_responses_of_memory(server, folder)
    if as_json:
        print_json({**done.to_json(), "responses": responses})
        return 0
    out.print(f"[bold]removed[/] {counted(done.num_files, 'file')} ({human_bytes(done.num_bytes)})")
    if responses:
        out.print(f"removed {counted(responses, 'stored response')} of a server, which had read this memory")
    for name in done.kept:
        out.print(f"[yellow]kept:[/] {shown(name)} is not the memory's")
    if done.num_linked:
        out.print(f"[yellow]outside:[/] {shown(done.outside[0])}")
    for line in done.leftovers:
        err.print(f"[yellow]note:[/] of an earlier purge: {shown(line)}")
    return 0
