"""``precog memory fit``: sub-clusters of what a user talks about, instead of the seeds'."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precog.cli import options
from precog.cli.memory.notes import tell
from precog.cli.output import counted, err, out, print_json, shown
from precog.config import resolve
from precog.errors import UsageError
from precog.memory.chunking import chunks_of
from precog.memory.domains import OTHERS
from precog.memory.history import FitSettings
from precog.memory.keyed import sklearn_part
from precog.memory.place import existing_folder
from precog.memory.transcript import read_transcript

if TYPE_CHECKING:
    from precog.memory.refit import Refitted


def fit(
    user: options.User,
    transcript: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TRANSCRIPT]",
            help="Fit to the turns of this file instead of to what is remembered; nothing of it is deposited.",
            show_default=False,
        ),
    ] = None,
    per_domain: Annotated[
        int | None,
        typer.Option(
            "--per-domain",
            metavar="J",
            min=1,
            help="How many sub-clusters each domain gets at most, with kmeans.  "
            "\\[default: as many as part it best, up to 10]",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="kmeans|hdbscan",
            help="How groups are found: kmeans puts every deposit into one, hdbscan only what lies densely.",
        ),
    ] = "kmeans",
    seed: options.Seed = 0,
    seeds: Annotated[
        bool, typer.Option("--seeds", help="Go back to the sub-clusters that a memory begins with.")
    ] = False,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Find sub-clusters in what is remembered, and sort every deposit into them."""
    from precog.memory.opened import OpenMemory
    from precog.memory.refit import fit_memory, use_seeds
    from precog.records import ModelChoice

    if method not in ("kmeans", "hdbscan"):
        raise UsageError("there is no such way to fit", given=method, expected="kmeans or hdbscan")
    wanted = FitSettings("kmeans" if method == "kmeans" else "hdbscan", per_domain, seed=seed)
    if seeds and (transcript is not None or per_domain is not None or method != "kmeans"):
        raise UsageError(
            "--seeds fits nothing", given="a transcript, --per-domain or --method", expected="--seeds alone"
        )
    if not seeds:
        sklearn_part("cluster")
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    folder = existing_folder(settings.home, user)
    read = None if transcript is None else read_transcript(transcript)
    for note in [] if read is None else read.notes:
        err.print(f"[yellow]note:[/] {shown(note)}")
    choice = ModelChoice.of(settings)
    with OpenMemory.open(folder, choice, encoder=settings.encoder, keeps_prototypes=False) as memory:
        most = memory.settings.chunk_tokens
        chunks = None if read is None else chunks_of(read.utterances, memory.backbone.tokenizer, max_tokens=most)
        report = use_seeds(memory) if seeds else fit_memory(memory, wanted, chunks)
    tell(report.damage)
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    return 0


def _print(report: "Refitted") -> None:
    out.print(
        f"[bold]fitted[/] {counted(report.num_fitted, 'sub-cluster')}; "
        f"{counted(report.num_moved, 'deposit')} moved, {counted(len(report.rebuilt), 'semantic state')} folded anew"
    )
    for entry in report.subclusters:
        size = report.sizes.get((entry.domain, entry.name), 0)
        if size or not entry.seeds:
            out.print(f"  {size:>6}  {shown(entry.domain)} ▸ {shown(entry.name)}  [dim]{entry.kind}[/]")
    for (domain, name), size in sorted(report.sizes.items()):
        if name == OTHERS:
            out.print(f"  {size:>6}  {shown(domain)} ▸ {OTHERS}")
