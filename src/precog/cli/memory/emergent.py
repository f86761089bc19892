"""``precog memory emergent``: groups that form among what no sub-cluster holds."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import counted, out, print_json, shown
from precog.config import resolve
from precog.memory.damage import damage_of
from precog.memory.emergent import LEAST_MEMBERS
from precog.memory.keyed import sklearn_part
from precog.memory.made_with import prototypes_of
from precog.memory.place import existing_folder
from precog.store.memory import MemoryStore


def emergent(
    user: options.User,
    promote: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Make the group of this name a sub-cluster, instead of listing the groups.",
            show_default=False,
        ),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="D", help="Look only in this domain.  \\[default: in all]", show_default=False)
    ] = None,
    least_members: Annotated[
        int, typer.Option("--least", metavar="N", min=2, help="How many deposits a group has at least.")
    ] = LEAST_MEMBERS,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """List the groups that emerge, or make one of them a sub-cluster; a model is needed for the latter only."""
    from precog.memory.emerge import candidates
    from precog.memory.emerge import promote as promote_group
    from precog.memory.opened import OpenMemory
    from precog.records import ModelChoice

    sklearn_part("cluster")
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    folder = existing_folder(settings.home, user)
    if promote is None:
        with MemoryStore.open(folder) as store:
            found = candidates(store, prototypes_of(store), domain, least_members=least_members)
            damage = damage_of(store)
        tell(damage)
        if as_json:
            print_json({"emergent": [entry.to_json() for entry in found], **damage.to_json()})
            return 0
        for entry in found:
            told = f"{len(entry.member_ids):>6}  {shown(entry.domain)} ▸ [bold]{shown(entry.name)}[/]"
            out.print(f"{told}  [dim]{entry.kind}, cohesion {entry.cohesion:.2f}[/]")
        if not found:
            out.print(f"no group of {least_members} deposits or more emerges")
        return 0
    choice = ModelChoice.of(settings)
    with OpenMemory.open(folder, choice, encoder=settings.encoder) as memory:
        done = promote_group(memory, promote, domain, least_members=least_members)
    tell(done.damage)
    if as_json:
        print_json(done.to_json())
        return 0
    name = shown(f"{done.candidate.domain} ▸ {done.candidate.name}")
    out.print(f"[bold]promoted[/] {name}: {counted(done.num_deposits, 'deposit')}")
    return 0
