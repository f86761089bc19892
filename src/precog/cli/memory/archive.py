"""``precog memory export`` and ``import``: a memory as a readable file."""

from pathlib import Path
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell, tell_lines
from precog.cli.output import counted, out, print_json, shown
from precog.cli.streams import note_committed
from precog.config import expanded, resolve
from precog.errors import UsageError
from precog.memory.archive import export as export_memory
from precog.memory.archive import read_archive
from precog.memory.contents import groups_of
from precog.memory.place import existing_folder, memory_folder
from precog.memory.recall import refreshed_or_why
from precog.store.memory import MemoryStore


def export(
    name: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The file to write, JSON lines; compressed where its name ends in .gz."),
    ],
    user: options.User,
    as_json: options.Json = False,
) -> int:
    """Write what was said to a file that people can read."""
    file = expanded(name)
    if name == "-":
        raise UsageError(
            "a memory is exported to a file, not to stdout", given=name, hint="write ./- if that is its name"
        )
    with MemoryStore.open(existing_folder(resolve({}).home, user)) as store:
        count, damage = export_memory(store, file)
    tell(damage)
    if as_json:
        print_json({"deposits": count, "file": str(file), **damage.to_json()})
        return 0
    out.print(f"[bold]written[/] {counted(count, 'deposit')} to {shown(str(file))}; `forget` does not reach them there")
    return 0


def load(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `precog memory export` wrote.")],
    user: options.User,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Remember what an exported file holds; what is known already changes nothing."""
    from precog.memory.opened import OpenMemory
    from precog.memory.restore import check_archive, import_archive
    from precog.records import ModelChoice

    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    entries = read_archive(file)
    choice = ModelChoice.of(settings)
    folder = memory_folder(settings.home, user)
    with OpenMemory.open(
        folder,
        choice,
        encoder=settings.encoder,
        create=True,
        before_making=lambda tokenizer, made: check_archive(entries, tokenizer, made.chunk_tokens, None),
    ) as memory:
        done = import_archive(memory, entries)
        note_committed("what the file holds is remembered all the same")
        tell_lines(refreshed_or_why(memory.store, memory.settings.encoder_fingerprint))
        tell(memory.damage)
        groups = groups_of(memory.store, done.ids) if as_json else []
    if as_json:
        print_json({**done.to_json(), "groups": groups})
        return 0
    new = len(done.ids) - done.num_duplicates
    out.print(f"[bold]remembered[/] {counted(new, 'deposit')}, {done.num_duplicates} known already")
    return 0
