"""``precog memory supersede``: something newer holds; the old stays as history."""

from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell, tell_lines
from precog.cli.output import out, print_json
from precog.cli.streams import note_committed
from precog.config import resolve
from precog.memory.damage import damage_of_segments
from precog.memory.made_with import settings_of
from precog.memory.place import existing_folder
from precog.memory.recall import refreshed_or_why
from precog.memory.supersede import supersede as supersede_deposit
from precog.store.memory import MemoryStore


def supersede(
    user: options.User,
    old: Annotated[int, typer.Argument(metavar="OLD", help="The number of the deposit that no longer holds.")],
    new: Annotated[int, typer.Argument(metavar="NEW", help="The number of the deposit that holds instead.")],
    as_json: options.Json = False,
) -> int:
    """Let one deposit hold instead of another, which is kept but no longer recalled."""
    with MemoryStore.open(
        existing_folder(resolve({}).home, user), write=True, wait_sec=30.0, allow_damaged=True
    ) as store:
        supersede_deposit(store, old, new)
        note_committed(f"{new} holds instead of {old} all the same")
        tell_lines(refreshed_or_why(store, settings_of(store).encoder_fingerprint))
        tell(damage_of_segments(store.damage))
    if as_json:
        print_json({"superseded": old, "by": new})
        return 0
    out.print(f"{old} is history; {new} holds instead")
    return 0
