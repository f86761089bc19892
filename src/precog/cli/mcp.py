"""``precog mcp``: a user's memory and documents for agents, over the Model Context Protocol."""

from typing import TYPE_CHECKING, Annotated

import typer

from precog.cli import options
from precog.cli.output import err
from precog.config import resolve
from precog.errors import UsageError
from precog.memory.place import memory_folder
from precog.plugins.mcp.protocol import make_server
from precog.server.log import set_up
from precog.server.settings import resolve_server

if TYPE_CHECKING:
    from precog.plugins.knowledge import Knowledge

_PORT = 8643


def mcp(
    user: options.User,
    corpus: options.Corpus = None,
    allow_write: Annotated[
        bool, typer.Option("--allow-write", help="Offer remember and forget, too; without it nothing is changed.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Speak over HTTP instead of standard input and output.")] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="With --http: address to listen on; others can reach it only with keys "
            "(`precog keys create`).  \\[default: 127.0.0.1]",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            help=f"With --http: port to listen on; 0 for any that is free.  \\[default: {_PORT}]",
        ),
    ] = None,
    data: options.ServerData = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", metavar="URL", help="With --http: a web page that may ask.  \\[default: none]"),
    ] = None,
    model: options.Model = None,
    encoder: options.Encoder = None,
) -> int:
    """Let agents ask, search, recall and list what one user has said and kept; with --allow-write remember and forget.

    What is needed is opened at the first call: what is missing or damaged is told to the agent, in one line.
    """
    settings = resolve({"corpus": corpus, "model": model, "encoder": encoder})
    memory_folder(settings.home, user)  # refuses a user without a name
    if not http and (host is not None or port is not None or allow_origin or data is not None):
        given = "--host, --port, --data or --allow-origin"
        raise UsageError("standard input and output have no address", given=given, expected="--http as well")
    opened: list[Knowledge] = []

    def knowledge() -> "Knowledge":
        if not opened:
            from precog.plugins.knowledge import Knowledge  # loads torch: the client is answered before

            opened.append(Knowledge(settings.corpus, user, model=model, encoder=encoder))
        return opened[0]

    has_corpus = settings.corpus is not None
    try:
        if http:
            try:
                from precog.plugins.mcp.http import check_scope, serve_http
            except ModuleNotFoundError as error:
                hint = "pip install 'precog-ssm[mcp]'"
                raise UsageError("--http needs a package that is not installed", given=error.name, hint=hint) from error

            wanted = {"host": host, "port": _PORT if port is None else port, "data": data}
            chosen = resolve_server({**wanted, "allow_origins": allow_origin or None})
            server = make_server(knowledge, has_corpus=has_corpus, allow_write=allow_write, check=check_scope)
            serve_http(server, chosen, user, lambda url: err.print(f"serving at {url}"))
        else:
            from precog.plugins.mcp.stdio import serve_stdio

            set_up("text", "warning")
            serve_stdio(make_server(knowledge, has_corpus=has_corpus, allow_write=allow_write))
    finally:
        for one in opened:
            one.close()
    return 0
