"""``precog keys``: who may ask a server."""

import re
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from precog.cli import options
from precog.cli.output import counted, err, out, print_json, shown
from precog.errors import UsageError
from precog.server.keys import Key, KeyRing
from precog.server.principal import SCOPES
from precog.server.settings import LOCAL_USER, resolve_server
from precog.server.tenant import Tenant

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Make, list and revoke the keys of a server; one that runs takes up changes within a second.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_MOST_SEC = 100 * 366 * 86_400.0
_MOST_CHARS = 200


@app.command()
def create(
    user: Annotated[str, typer.Option("--user", metavar="U", help="Whose corpora and memories it opens.")],
    scope: Annotated[
        str, typer.Option("--scope", metavar="read,write,admin", help="What it is good for, with commas between.")
    ] = "read,write",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="30d|DATE", help="When it ends: after 12h, 30d or 8w, or a date.  \\[default: never]"
        ),
    ] = None,
    note: Annotated[str, typer.Option("--note", metavar="N", help="What it is for, for people.")] = "",
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate", metavar="N", help="Requests a minute; 0 for no limit.  \\[default: the server's]", min=0
        ),
    ] = None,
    data: options.ServerData = None,
    as_json: options.Json = False,
) -> int:
    """Make a key and print it, once: only what it takes to recognise it is kept."""
    if not user.strip() or len(user) > _MOST_CHARS or len(note) > _MOST_CHARS:
        raise UsageError("--user needs a name, and neither it nor --note is long", expected=f"{_MOST_CHARS} characters")
    until = _end(expires)
    settings = resolve_server({"data": data})
    ring = KeyRing(settings.data)
    leaves_local = not ring.is_needed and user != LOCAL_USER and Tenant(settings, LOCAL_USER).has_things
    key, text = ring.create(user, _scopes(scope), expires=until, note=note, requests_per_minute=rate)
    if leaves_local:
        whose = f"what was uploaded without keys belongs to the user {LOCAL_USER}"
        err.print(f"{whose}; for a key to it: precog keys create --user {LOCAL_USER}")
    if as_json:
        print_json({**_public(key), "key": text})
    else:
        out.print(text)
    return 0


@app.command("list")
def listing(data: options.ServerData = None, as_json: options.Json = False) -> int:
    """List the keys, without what would let anybody in."""
    ring = KeyRing(resolve_server({"data": data}).data)
    if as_json:
        print_json({"keys": [_public(key) for key in ring.keys], "needed": ring.is_needed})
        return 0
    for key in ring.keys:
        until = "never ends" if key.expires is None else f"until {_date(key.expires)}"
        if key not in ring.usable:
            until = f"[red]ended {_date(key.expires or 0.0)}[/]"
        note = f"  {shown(key.note)}" if key.note else ""
        out.print(f"[bold]{key.id}[/]  {shown(key.user)}  {','.join(key.scopes)}  {until}{note}")
    if not ring.keys:
        out.print("no keys" if ring.is_needed else "no keys: the server is open to this machine, and to no other")
    else:
        out.print(counted(len(ring.keys), "key"))
    return 0


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `precog keys list` shows it.")],
    data: options.ServerData = None,
    as_json: options.Json = False,
) -> int:
    """Revoke a key: whoever has it does not come in any more."""
    key = KeyRing(resolve_server({"data": data}).data).revoke(key_id)
    if as_json:
        print_json({"revoked": _public(key)})
    else:
        out.print(f"revoked {key.id}, of {shown(key.user)}")
    return 0


def _scopes(text: str) -> tuple[str, ...]:
    wanted = {word.strip() for word in text.split(",")}
    if not wanted <= set(SCOPES):
        raise UsageError("--scope: there is no such scope", given=text, expected=" or ".join(SCOPES))
    return tuple(scope for scope in SCOPES if scope in wanted)


def _end(text: str | None) -> float | None:
    """Seconds since 1970."""
    if text is None:
        return None
    now = time.time()
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip())
    try:
        end = now + int(match[1]) * _UNITS[match[2]] if match else _of_date(text)
    except (ValueError, OverflowError):
        end = now
    if not now < end < now + _MOST_SEC:
        expected = "12h, 30d or 8w from now, or a date to come such as 2030-01-31"
        raise UsageError("--expires: no time to come", given=text, expected=expected)
    return end


def _of_date(text: str) -> float:
    found = datetime.fromisoformat(text.strip())
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _public(key: Key) -> dict[str, object]:
    return {
        "id": key.id,
        "user": key.user,
        "scopes": list(key.scopes),
        "created": _date(key.created),
        "expires": None if key.expires is None else _date(key.expires),
        "note": key.note,
        "requests_per_minute": key.requests_per_minute,
    }
