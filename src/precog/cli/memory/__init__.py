"""``precog memory``: what a user's memory holds, and the ways in and out of it.

A command that reads texts with a model loads it when it is called: the others start without torch.
"""

import typer

from precog.cli.memory.archive import export, load
from precog.cli.memory.emergent import emergent
from precog.cli.memory.fit import fit
from precog.cli.memory.forget import forget
from precog.cli.memory.map import draw
from precog.cli.memory.purge import purge
from precog.cli.memory.recall import recall
from precog.cli.memory.reindex import reindex
from precog.cli.memory.remember import remember
from precog.cli.memory.show import listing, show, stats
from precog.cli.memory.supersede import supersede

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Remember, recall and forget.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(remember)
app.command()(recall)
app.command()(forget)
app.command("list")(listing)
app.command()(show)
app.command()(stats)
app.command()(reindex)
app.command()(fit)
app.command()(emergent)
app.command("map")(draw)
app.command()(supersede)
app.command()(purge)
app.command()(export)
app.command("import")(load)
