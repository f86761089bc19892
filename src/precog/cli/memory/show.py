"""``precog memory list``, ``show`` and ``stats``: what a memory holds."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import counted, human_bytes, out, print_json, shown
from precog.config import resolve
from precog.errors import InputError
from precog.memory.contents import listed, stats_of, whole_row
from precog.memory.place import existing_folder
from precog.memory.selection import speakers_of
from precog.store.memory import Deposit, MemoryStore


def listing(
    user: options.User,
    domain: Annotated[
        str | None, typer.Option(metavar="D", help="List only the deposits of this domain.", show_default=False)
    ] = None,
    speaker: Annotated[
        str | None, typer.Option(metavar="S", help="List only what this speaker said.", show_default=False)
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many deposits are listed at most, the newest ones.")
    ] = 100,
    as_json: options.Json = False,
) -> int:
    """List deposits, the newest last; one that something newer holds instead of is marked as superseded."""
    with MemoryStore.open(existing_folder(resolve({}).home, user)) as store:
        found = listed(store, domain=domain, speaker=speaker, limit=limit)
        names = "" if found.total or found.damage else speakers_of(store)
    tell(found.damage)
    if as_json:
        print_json(found.to_json())
        return 0
    for deposit in found.deposits:
        out.print(line_of(deposit))
    if not found.total:
        fitting = "that is remembered fits" if domain is not None or speaker is not None else "is remembered"
        who = f"; speakers: {shown(names)}" if speaker is not None and names else ""
        out.print(f"[dim]nothing {fitting}{who}[/]")
    if found.has_older:
        out.print(f"[dim]the last {len(found.deposits)} of {found.total}; --limit shows more[/]")
    return 0


def show(
    user: options.User,
    number: Annotated[int, typer.Argument(metavar="ID", help="The number of the deposit.")],
    as_json: options.Json = False,
) -> int:
    """Show one deposit whole."""
    with MemoryStore.open(existing_folder(resolve({}).home, user)) as store:
        row = whole_row(store, number)
    if row is None:
        raise InputError("there is no such deposit", given=number, hint="see `precog memory list`")
    if as_json:
        print_json(row)
        return 0
    for key, value in row.items():
        out.print(f"[bold]{_NAMES[key]}[/]  {shown(_in_words(value))}")
    return 0


_NAMES = {
    "id": "number",
    "text": "text",
    "time": "said at",
    "speaker": "speaker",
    "place": "place",
    "domain": "domain",
    "subcluster": "sub-cluster",
    "probability": "share of the sub-cluster in its route",
    "num_tokens": "tokens read, header and text",
    "num_states": "states kept",
    "superseded_by": "superseded by",
    "header": "header, which the model reads before the text",
    "positions": "tokens after which states are kept",
}


def _in_words(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none: they have expired"
    return f"{value:.2f}" if isinstance(value, float) else str(value).strip()


def stats(user: options.User, as_json: options.Json = False) -> int:
    """Say how much a memory holds, and where."""
    with MemoryStore.open(existing_folder(resolve({}).home, user)) as store:
        found = stats_of(store)
    tell(found.damage)
    if as_json:
        print_json(found.to_json())
        return 0
    size = found.size
    out.print(
        f"{counted(size.num_deposits, 'deposit')} in {counted(len(found.groups), 'sub-cluster')}; "
        f"{counted(size.num_states, 'state')} "
        f"({human_bytes(size.state_bytes)} of {human_bytes(found.settings.budget_bytes)}), "
        f"{counted(size.num_semantic, 'semantic state')}"
    )
    for group in sorted(found.groups, key=lambda group: -group.num_deposits):
        out.print(f"  {group.num_deposits:>6}  {shown(group.domain)} ▸ {shown(group.subcluster)}")
    return 0


def line_of(deposit: Deposit) -> str:
    """A deposit as people read it in a list: one line, marked where something newer holds instead."""
    info = deposit.info
    when = "" if info.time is None else info.time.isoformat()
    old = "" if deposit.superseded_by is None else f"  [yellow]superseded by {deposit.superseded_by}[/]"
    text = " ".join(info.text.split())[:100]
    return f"[bold]{deposit.id}[/]  {shown(when)}  {shown(info.speaker or '')}  {shown(text)}{old}"
