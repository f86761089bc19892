"""``precog verify``: proof for this model and this corpus."""

from typing import Annotated

import typer
from rich.markup import escape

from precog.cli import options
from precog.cli.output import err, out, print_json
from precog.config import resolve
from precog.corpus.corpus import ModelChoice
from precog.corpus.verify import DEFAULT_CHUNKS, VerifyReport, verify_corpus

_MOST_LISTED = 20


def verify(
    corpus: options.Corpus = None,
    model: options.Model = None,
    chunks: Annotated[
        int, typer.Option(metavar="N", help="Chunks to read, spread over the corpus.", min=1)
    ] = DEFAULT_CHUNKS,
    device: options.Device = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> int:
    """Prove that continuing from a stored state equals reading the text, and check every stored record."""
    settings = resolve({"corpus": options.text(corpus), "model": model, "device": device, "threads": threads})
    choice = ModelChoice(settings.model, settings.device, settings.threads)
    with err.status("loading the model") as status:
        report = verify_corpus(settings.corpus_folder, model=choice, num_chunks=chunks, on_step=status.update)
    for violation in report.violations[:_MOST_LISTED]:
        err.print(f"[red]violation[/] {escape(violation)}")
    if len(report.violations) > _MOST_LISTED:
        err.print(f"[red]and {len(report.violations) - _MOST_LISTED} more[/]")
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    return 0 if report.ok else 1


def _print_report(report: VerifyReport) -> None:
    found = report.conformance
    out.print(
        f"[bold]{escape(report.model)}[/], fingerprint {report.fingerprint[:12]}, computed in {report.encoding_dtype}"
    )
    rows = [("fresh states, FP32", found.exact), ("live states at other cuts", found.live)]
    rows += [(f"{name} states", comparison) for name, comparison in found.coded.items()]
    for name, comparison in rows:
        out.print(
            f"  {name:<26} max |Δlogit| {comparison.max_abs_logit_error:.2e}, same first choice at "
            f"{100 * comparison.argmax_agreement:.1f} % of {comparison.positions} positions"
        )
    out.print(f"  {report.chunks_checked} chunks, {found.cuts} cuts, {report.records_checked} records checked")
    out.print("[bold green]ok[/]" if report.ok else f"[bold red]{len(report.violations)} violations[/]")
