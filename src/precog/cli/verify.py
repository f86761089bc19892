"""``precog verify``: proof for this model and this corpus."""

import time
from types import TracebackType
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import counted, err, out, print_json, shown
from precog.config import resolve
from precog.corpus.verify import DEFAULT_CHUNKS, VerifyReport, verify_corpus
from precog.records import ModelChoice

_MOST_LISTED = 20
_SILENCE_SEC = 5.0


def verify(
    corpus: options.Corpus = None,
    model: options.Model = None,
    chunks: Annotated[
        int, typer.Option(metavar="N", help="Chunks to read, spread over the corpus: a few seconds each.", min=1)
    ] = DEFAULT_CHUNKS,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
    template: options.Template = None,
    as_json: options.Json = False,
) -> int:
    """Prove that continuing from a stored state equals reading the text, and check every stored record.

    Takes about four seconds a chunk on two idle cores; every record is checked besides, whatever --chunks says.
    """
    settings = resolve(
        {"corpus": corpus, "model": model, "device": device, "threads": threads, "dtype": dtype, "template": template}
    )
    choice = ModelChoice.of(settings)
    with Steps("loading the model") as steps:
        report = verify_corpus(settings.corpus_folder, model=choice, num_chunks=chunks, on_step=steps.say)
    for violation in report.violations[:_MOST_LISTED]:
        err.print(f"[red]violation[/] {shown(violation)}")
    if len(report.violations) > _MOST_LISTED:
        err.print(f"[red]and {len(report.violations) - _MOST_LISTED} more[/]")
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    return 0 if report.ok else 1


class Steps:
    """What is being done, on stderr: one changing line on a terminal, elsewhere one line a step at most every 5 s."""

    def __init__(self, first: str) -> None:
        self._status = err.status(shown(first)) if err.is_terminal else None
        self._said_sec = time.monotonic()

    def __enter__(self) -> "Steps":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, step: str) -> None:
        """A step begins."""
        if self._status is not None:
            self._status.update(shown(step))
        elif time.monotonic() - self._said_sec >= _SILENCE_SEC:
            self._said_sec = time.monotonic()
            err.print(f"[dim]{shown(step)}[/]")


def _print_report(report: VerifyReport) -> None:
    found = report.conformance
    out.print(
        f"[bold]{shown(report.model)}[/], fingerprint {report.fingerprint[:12]}, computed in {report.encoding_dtype}"
    )
    rows = [("fresh states, FP32", found.exact), ("live states at other cuts", found.live)]
    rows += [(f"{name} states", comparison) for name, comparison in found.coded.items()]
    for name, comparison in rows:
        out.print(
            f"  {name:<26} max |Δlogit| {comparison.max_abs_logit_error:.2e}, same first choice at "
            f"{100 * comparison.argmax_agreement:.1f} % of {comparison.positions} positions"
        )
    out.print(
        f"  {counted(report.chunks_checked, 'chunk')}, {counted(found.cuts, 'cut')}, "
        f"{counted(report.records_checked, 'record')} checked"
    )
    if report.records_refined:
        out.print(
            f"  {counted(report.records_refined, 'record')} refined: reading does not give such a state, so that its "
            "checksum, model and numbers are checked, and no logits compared"
        )
    out.print("[bold green]ok[/]" if report.ok else f"[bold red]{len(report.violations)} violations[/]")
