"""``precog index``: documents in, states and keys out."""

from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from precog.cli import options
from precog.cli.output import counted, err, human_bytes, out, print_json, shown
from precog.cli.progress import Bar
from precog.cli.quality import print_tally
from precog.cli.sizes import read_limit
from precog.config import resolve
from precog.corpus.indexing import IndexRequest, index_documents
from precog.corpus.report import IngestReport
from precog.interrupt import InterruptedRunError
from precog.records import ModelChoice

_MOST_LISTED = 20


def index(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH…", help="Files, folders, globs, or - for standard input.")
    ] = None,
    corpus: options.Corpus = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    include_all: Annotated[bool, typer.Option("--all", help="Also hidden, ignored and environment files.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Forget documents whose file has vanished.")] = False,
    quality: options.Quality = None,
    study_steps: options.StudySteps = None,
    study_seconds: options.StudySeconds = None,
    encode: Annotated[
        str | None,
        typer.Option(
            metavar="once|twice|twice-reversed",
            help="How often the model reads a chunk and, with --quality study, each of its sentences.  "
            "\\[default: as --quality says]",
            show_default=False,
        ),
    ] = None,
    chunk_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Most tokens of a chunk.  \\[default: the model's own, see `precog models`; 256 where it has none]",
            show_default=False,
        ),
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(metavar="N", help="Tokens a chunk repeats of the one before.  \\[default: 0]", show_default=False),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="document|paragraph|sentence|window|turns",
            help="How documents are parted.  \\[default: document]",
            show_default=False,
        ),
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(metavar=options.CODECS, help="How states are stored.  \\[default: fp16]", show_default=False),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="all|none|alternate|bottom:N|top:N|LIST",
            help="Layers whose states are kept.  \\[default: all]",
            show_default=False,
        ),
    ] = None,
    keys: options.Keys = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE|none",
            help="What the states may take on the disk together, now and at later runs; those of the shortest texts "
            "give way first and are read again, not studied, when they are needed; `precog reindex` fills more room.  "
            "In bytes, or as in 2GB, 500MB or 1GiB; none lifts the limit.  "
            "\\[default: the corpus's own; none in a new one]",
            show_default=False,
        ),
    ] = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.Json = False,
) -> int:
    """Read documents once and keep what the model remembers of them.

    Run it again after files have changed, or after an interruption: only what is new is read.
    """
    settings = resolve(
        {
            "corpus": corpus,
            "model": model,
            "device": device,
            "threads": threads,
            "dtype": dtype,
            "template": template,
            "encoder": encoder,
        }
    )
    limit = None if budget is None else read_limit(budget)
    request = IndexRequest(
        paths=tuple(paths or ()),
        corpus=settings.corpus_folder,
        model=ModelChoice.of(settings),
        encoder=settings.encoder,
        include_all=include_all,
        prune=prune,
        wanted={
            "quality": quality,
            "study_steps": study_steps,
            "study_seconds": study_seconds,
            "encode_mode": encode,
            "codec": codec,
            "layers": layers,
            "chunk_tokens": chunk_tokens,
            "overlap": overlap,
            "strategy": strategy,
            "keys": keys,
        },
        budget_bytes=limit,
        lifts_budget=budget is not None and limit is None,
    )
    with IndexProgress() as progress:
        report = index_documents(request, progress=progress)
    _print_remarks(report)
    print_study_note(report)
    if as_json:
        print_json(report.to_json())
    else:
        print_summary(report, settings.corpus_folder)
    return 0 if report.anything or report.pruned or budget is not None else 1


class IndexProgress(Bar):
    """A bar on stderr with tokens per second and the time left; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        super().__init__(
            "loading the model",
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            speed="",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes what an interrupted run has kept out of the hands of the parser of options, which drops it."""
        super().__exit__(kind, error, trace)
        if isinstance(error, KeyboardInterrupt) and (notes := getattr(error, "__notes__", None)):
            raise InterruptedRunError("; ".join(notes)) from error

    def growing(self, state_bytes: int, room_tokens: int) -> None:
        """What each chunk will take, before the first is read."""
        room = f"keys and values of attention of up to {room_tokens:,} tokens included"
        err.print(f"each state will take {human_bytes(state_bytes)}, {room}")

    def start(self, total_bytes: int) -> None:
        """All sources are known."""
        self._bar.reset(self._task, total=max(1, total_bytes))

    def reading(self, document: str) -> None:
        """A document is opened."""
        self._bar.update(self._task, description=shown(Path(document).name[-40:]))

    def advance(self, done_bytes: int, num_tokens: int) -> None:
        """How far it is."""
        elapsed_sec = self._bar.tasks[0].elapsed or 0.0
        speed = f"{num_tokens / elapsed_sec:,.0f} tokens/s" if elapsed_sec > 1 else ""
        self._bar.update(self._task, completed=done_bytes, speed=speed)


def _print_remarks(report: IngestReport) -> None:
    for warning in report.warnings:
        err.print(f"[yellow]note[/] {shown(warning.document)}: {shown(warning.reason)}")
    for failure in report.failures:
        err.print(f"[red]nothing from[/] {shown(failure.document)}: {shown(failure.reason)}")
    if report.missing:
        done = "forgotten" if report.pruned else "still in the corpus; --prune forgets them"
        names = ", ".join(report.missing[:_MOST_LISTED]) + (" …" if len(report.missing) > _MOST_LISTED else "")
        err.print(f"[yellow]vanished[/] ({done}): {shown(names)}")
    if report.skipped:
        counts = ", ".join(f"{count} × {reason}" for reason, count in report.skipped.items())
        err.print(f"[dim]passed over: {shown(counts)} (--all reads also what is hidden or ignored)[/]")


def print_study_note(report: IngestReport) -> None:
    """Tells of states that training would have spoilt."""
    if count := report.study.kept.get("not a number"):
        err.print(f"[yellow]note[/] training {counted(count, 'state')} gave no number: kept as they were read")


def print_summary(report: IngestReport, corpus: Path, changed: str = "changed") -> None:
    """What a run did, for people; ``changed`` is what has happened to documents that are counted as such."""
    parts = [
        f"{count} {name}"
        for count, name in (
            (report.new, "new"),
            (report.changed, changed),
            (report.unchanged, "unchanged"),
            (report.failed, "failed"),
            (len(report.missing) - report.pruned, "missing"),
            (report.pruned, "pruned"),
        )
        if count
    ]
    out.print(f"[bold]{shown(str(corpus))}[/]: documents: {', '.join(parts) or 'none'}")
    if report.chunks:
        out.print(
            f"{counted(report.chunks, 'chunk')}, {report.tokens:,} tokens, {human_bytes(report.bytes)} of documents, "
            f"{report.tokens_per_sec:,.0f} tokens/s"
        )
    if report.parts:
        out.print(f"{report.parts:,} sentences and rows of tables read alone, too")
    if report.let_go:
        again = "read again when needed, not studied" if report.study.studied else "read again when needed"
        out.print(f"{counted(report.let_go, 'state')} gave way to the budget: their texts are {again}")
    print_tally(report.study)
