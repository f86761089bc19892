"""``precog memory forget``: deposits leave, with all that was made of them."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import counted, err, human_bytes, out, print_json, shown
from precog.cli.progress import Counting
from precog.cli.streams import note_committed
from precog.config import resolve
from precog.errors import UsageError
from precog.memory.moment import parse_time
from precog.memory.place import existing_folder
from precog.memory.recall import Recaller
from precog.memory.selection import Selection
from precog.server.outside import forget_responses_of_memory
from precog.server.settings import resolve_server
from precog.store.memory import STATES_ANEW

_MOST_NAMED = 10
_MOST_CHARS = 60


def forget(
    user: options.User,
    ids: Annotated[
        list[int] | None, typer.Option("--id", metavar="ID", help="Forget the deposit of this number; may be repeated.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="Q", help="Forget what says this, in these or other words.", show_default=False),
    ] = None,
    top_k: Annotated[int, typer.Option(metavar="N", help="How many deposits --query means at most.")] = 1,
    before: Annotated[
        str | None, typer.Option(metavar="ISO", help="Forget only what was said before this time.", show_default=False)
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="ISO", help="Forget only what was said at this time or later.", show_default=False),
    ] = None,
    speaker: Annotated[
        str | None, typer.Option(metavar="S", help="Forget only what this speaker said.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget every deposit.")] = False,
    proof: Annotated[
        bool,
        typer.Option("--proof", help="Search every byte of the memory for what was forgotten, and say what is found."),
    ] = False,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Forget deposits, and prove that nothing of them is left."""
    from precog.memory.forget import forget as forget_deposits
    from precog.memory.opened import OpenMemory
    from precog.records import ModelChoice

    for option, value in (("--before", before), ("--after", after)):
        if value is not None and not value.strip():
            raise UsageError("an option says nothing", given=f'{option} ""', expected="a time, or no such option")
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    selection = Selection(
        ids=tuple(ids or ()),
        query=query,
        top_k=top_k,
        after=None if after is None else parse_time(after),
        before=None if before is None else parse_time(before),
        speaker=speaker,
        everything=everything,
    )
    choice, server = ModelChoice.of(settings), resolve_server()
    folder = existing_folder(settings.home, user)
    with OpenMemory.open(folder, choice, encoder=settings.encoder) as memory:
        chosen = selection.find(memory.store, Recaller(memory.store, memory.encoder))
        with Counting("searching") as bar:
            damaged = selection.damaged(memory.store)
            report = forget_deposits(memory, chosen, damaged=damaged, proof=proof, on_bytes=bar.show)
    responses = forget_responses_of_memory(server, folder)
    note_committed(f"{counted(len(report.ids), 'deposit')} forgotten all the same")
    for name in report.index_left:
        err.print(f"[red]forgotten, but this index file cannot be removed and may hold its words:[/] {shown(name)}")
    if report.unerased:
        places = ", ".join(report.unerased[:_MOST_NAMED])
        err.print(
            f"[red]forgotten, but its states cannot be overwritten there:[/] {shown(places)}; {shown(STATES_ANEW)}"
        )
    tell(report.damage)
    status = 0 if report.is_complete else 1
    if as_json:
        print_json({**report.to_json(), "responses": responses})
        return status
    out.print(f"[bold]forgotten[/] {counted(len(report.ids), 'deposit')}")
    for deposit in chosen[:_MOST_NAMED]:
        out.print(f"  {deposit.id}  {shown(' '.join(deposit.info.text.split())[:_MOST_CHARS])}")
    if len(chosen) > _MOST_NAMED:
        out.print(f"  and {len(chosen) - _MOST_NAMED} more")
    for group in report.rebuilt:
        out.print(f"rebuilt {shown(' ▸ '.join(group))}")
    for name in report.dropped:
        out.print(f"dropped {shown(name)}")
    if report.restored:
        out.print(f"holding again, as nothing newer is left: {', '.join(map(str, report.restored))}")
    if responses:
        out.print(f"removed {counted(responses, 'stored response')} of a server, which had read this memory")
    if proof:
        out.print(
            f"searched {report.files_searched} files ({human_bytes(report.bytes_searched)}) for "
            f"{report.searched_for} pieces of text, tokens, keys and states: "
            f"[{'red' if report.hits else 'green'}]{report.hits} found[/]"
        )
        if again := report.said_again:
            more = f" and {len(again) - _MOST_NAMED} more" if len(again) > _MOST_NAMED else ""
            named = ", ".join(map(str, again[:_MOST_NAMED]))
            out.print(f"[yellow]others say some of the same words, speaker or day:[/] deposits {named}{more}")
        out.print(f"[yellow]not searched:[/] {shown('; '.join(report.not_searched))}")
    return status
