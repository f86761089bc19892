"""``precog serve``: corpora and memories over HTTP."""

from functools import partial
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import err, shown
from precog.cli.sizes import read_size
from precog.config import resolve
from precog.encoders import load_encoder
from precog.records import ModelChoice
from precog.server.run import serve as run_server
from precog.server.settings import resolve_server

_ORIGIN_HELP = "A web page that may ask, such as https://example.org; may be given several times.  \\[default: none]"


def serve(
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Address to listen on; others can reach it only with keys "
            "(`precog keys create`).  \\[default: 127.0.0.1]",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="PORT", help="Port to listen on; 0 for any that is free.  \\[default: 8642]"),
    ] = None,
    data: options.ServerData = None,
    shared: Annotated[
        list[str] | None,
        typer.Option("--share", metavar="NAME=DIR", help="A corpus that everybody may ask and nobody may change."),
    ] = None,
    allow_root: Annotated[
        list[str] | None,
        typer.Option("--allow-root", metavar="DIR", help="A folder whose files may be ingested by their path."),
    ] = None,
    allow_origin: Annotated[list[str] | None, typer.Option("--allow-origin", metavar="URL", help=_ORIGIN_HELP)] = None,
    max_body: Annotated[
        int | None,
        typer.Option("--max-body", metavar="SIZE", parser=read_size, help="Largest request.  \\[default: 4MiB]"),
    ] = None,
    max_upload: Annotated[
        int | None,
        typer.Option(
            "--max-upload", metavar="SIZE", parser=read_size, help="Largest upload, as in 1GB.  \\[default: 256MiB]"
        ),
    ] = None,
    max_streams: Annotated[
        int | None, typer.Option("--max-streams", metavar="N", help="Answers worked on at once.  \\[default: 64]")
    ] = None,
    max_waiting: Annotated[
        int | None, typer.Option("--max-waiting", metavar="N", help="Requests that may wait.  \\[default: 128]")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option("--rate", metavar="N", help="Requests a minute of one key; 0 for no limit.  \\[default: 600]"),
    ] = None,
    keep_responses: Annotated[
        float | None,
        typer.Option(
            "--keep-responses", metavar="SECONDS", help="How long responses are kept.  \\[default: 2592000, 30 days]"
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option("--grace", metavar="SECONDS", help="How long stopping waits for what has begun.  \\[default: 30]"),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", metavar="text|json", help="Lines of the log.  \\[default: text]")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", metavar="info|warning|error", help="info has a line a request.  \\[default: info]"),
    ] = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
    device: options.Device = None,
    threads: options.Threads = None,
    dtype: options.Dtype = None,
) -> int:
    r"""Serve corpora and memories behind an API that clients of OpenAI's use unchanged.

    What is set for good stands in the table \[server] of config.toml, or in the environment as PRECOG_SERVER_KEY, with
    the key in capitals: data, host, port, shared, allow_roots, allow_origins, max_body_bytes, max_upload_bytes,
    max_streams, max_waiting, requests_per_minute, keep_responses_sec, grace_sec, has_docs, log_format, log_level.
    """
    settings = resolve({"model": model, "device": device, "threads": threads, "dtype": dtype, "encoder": encoder})
    chosen = resolve_server(
        {
            "host": host,
            "port": port,
            "data": data,
            "shared": shared or None,
            "allow_roots": allow_root or None,
            "allow_origins": allow_origin or None,
            "max_body_bytes": max_body,
            "max_upload_bytes": max_upload,
            "max_streams": max_streams,
            "max_waiting": max_waiting,
            "requests_per_minute": rate,
            "keep_responses_sec": keep_responses,
            "grace_sec": grace,
            "log_format": log_format,
            "log_level": log_level,
        }
    )
    run_server(
        chosen,
        ModelChoice.of(settings),
        partial(load_encoder, settings.encoder),
        on_ready=lambda url: err.print(f"serving at {url}"),
        say=lambda line: err.print(shown(line)),
    )
    return 0
