"""``precog memory recall``: what was said that bears on a question."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import out, print_json, shown
from precog.config import resolve
from precog.memory.made_with import encoder_of, settings_of
from precog.memory.place import existing_folder
from precog.memory.recall import Recaller
from precog.store.memory import MemoryStore


def recall(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to look for, in any words.")],
    user: options.User,
    top_k: Annotated[int, typer.Option(metavar="N", help="How many deposits are shown, the best first.")] = 5,
    probes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="In how many sub-clusters, the nearest to the question, to look; 0 for all, which finds most.  "
            "\\[default: the memory's own, 0]",
            show_default=False,
        ),
    ] = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Find what was said, by meaning and by words; no model is needed.

    The best come first; the number beside each joins how near its meaning is and how well its words fit, relative to
    the best of this search: 1 at most, and no measure of how sure an answer would be.
    """
    chosen = resolve({"encoder": encoder})
    with MemoryStore.open(existing_folder(chosen.home, user)) as store:
        settings = settings_of(store)
        recaller = Recaller(store, encoder_of(settings, chosen.encoder))
        found = recaller.recall(question, top_k, probes=settings.probes if probes is None else probes)
    tell(found.damage)
    if as_json:
        print_json(found.to_json())
        return 0
    for entry in found.evidence:
        info = entry.deposit.info
        who = ", ".join(part for part in (info.time and info.time.isoformat(), info.speaker, info.place) if part)
        out.print(
            f"[bold]{entry.deposit.id}[/]  {entry.score:.2f}  {shown(who)}  [dim]{shown(' ▸ '.join(info.group))}[/]"
        )
        out.print(f"    {shown(info.text)}")
    if not found.evidence:
        out.print("nothing is remembered that holds")
        return 0
    out.print(f"[dim]{found.fraction_searched:.0%} of the memory searched[/]")
    return 0
