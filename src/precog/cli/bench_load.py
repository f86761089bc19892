"""``precog bench load``: many clients at a server at once."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from precog.bench.load.acknowledged import Acknowledged
from precog.bench.load.connection import Address, Connection
from precog.bench.load.run import MOST_GROWTH, Report, Wanted
from precog.bench.load.run import load as run_load
from precog.cli import options
from precog.cli.output import err, human_bytes, human_seconds, out, print_json, shown
from precog.cli.progress import Counting
from precog.config import expanded

_MOST_LISTED = 20
_WAIT_SEC = 600.0


def load(
    url: Annotated[str, typer.Option("--url", metavar="URL", help="The server, such as http://127.0.0.1:8642.")],
    key: Annotated[
        str,
        typer.Option("--key", metavar="K", help="Its key, with the scopes read and write; of a user made for this."),
    ] = "",
    clients: Annotated[int, typer.Option("--clients", metavar="N", help="Clients.", min=1, max=1024)] = 64,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="How long.", min=0.1, max=86400)] = 180.0,
    cancel: Annotated[
        float, typer.Option("--cancel", metavar="P", help="Share of requests that are broken off.", min=0, max=1)
    ] = 0.1,
    pid: Annotated[
        int | None,
        typer.Option("--pid", metavar="N", help="Process of the server, whose memory is watched.", show_default=False),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="FILE",
            help="Keep what was made, and write down there what the server acknowledged.",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="FILE",
            help="Only look whether all that is in a file of --check is there.",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> int:
    """Ask a server for everything at once, break some of it off, and look whether what it acknowledged is there.

    Any status but 2xx and 429 is a failure. Start the server with --rate 0, or most answers will be 429.
    """
    address = Address.of(url, key)
    if verify is not None:
        return _verify(address, Acknowledged.read(expanded(verify)), as_json=as_json)
    wanted = Wanted(clients, seconds, cancel, seed, pid)
    with Counting("seconds") as bar:
        report = run_load(
            address,
            wanted,
            check=None if check is None else expanded(check),
            on_requests=lambda passed, count: bar.show(int(passed), int(seconds), f"{count:,} requests; seconds"),
        )
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    return 0 if report.ok else 1


def _verify(address: Address, acknowledged: Acknowledged, *, as_json: bool) -> int:
    with closing(Connection(address)) as connection:
        lost = acknowledged.lost(connection, wait_sec=_WAIT_SEC)
    counts = {name: len(value) for name, value in acknowledged.to_json().items() if isinstance(value, list)}
    if as_json:
        print_json({"ok": not lost, "acknowledged": counts, "lost": lost})
    else:
        out.print("; ".join(f"{count:,} {name}" for name, count in counts.items()) + f": {len(lost):,} lost")
        _list(lost)
    return 1 if lost else 0


def _list(lines: list[str]) -> None:
    for line in lines[:_MOST_LISTED]:
        err.print(f"[red]{shown(line)}[/]")
    if len(lines) > _MOST_LISTED:
        err.print(f"[red]and {len(lines) - _MOST_LISTED:,} more[/]")


def _print(report: Report) -> None:
    table = Table("", "requests", "p50", "p99", "first token p50", "p99")
    for kind, row in report.kinds.items():
        times = [row[name] for name in ("p50_sec", "p99_sec", "ttft_p50_sec", "ttft_p99_sec")]
        table.add_row(kind, f"{row['requests']:,}", *("–" if one is None else human_seconds(one) for one in times))
    out.print(table)
    statuses = ", ".join(f"{count:,} × {status}" for status, count in report.statuses.items())
    out.print(
        f"{report.wanted.clients} clients, {report.seconds:.0f} s: {statuses}; {report.tokens_per_sec:,.1f} tokens/s"
    )
    if report.rss_growth is not None:
        sizes = " → ".join(human_bytes(size) for size in report.rss_bytes)
        colour = "green" if report.rss_growth <= MOST_GROWTH else "yellow"
        out.print(f"memory of the server: {sizes}; [{colour}]{report.rss_growth:+.1%}[/] since the first third")
    kept = ", ".join(f"{count:,} {name}" for name, count in report.acknowledged.items())
    out.print(f"acknowledged: {kept}; {'[red]' if report.lost else '[green]'}{len(report.lost):,} lost[/]")
    _list([f"{count:,} × {line}" for line, count in report.failures.items()])
    _list([f"lost: {line}" for line in report.lost])
    out.print("[bold green]ok[/]" if report.ok else "[bold red]failed[/]")
