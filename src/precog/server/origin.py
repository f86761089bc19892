"""Where a request comes from: a server without keys answers this machine's own programs and pages, and nobody else's.

A web page of anybody's can send requests to this machine. It can give its own name this machine's address, too (DNS
rebinding); then the name that the request asks for tells.
"""

import re
from collections.abc import Mapping

from precog.errors import AccessError
from precog.server.settings import is_loopback

_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?")
_STRANGE_SITES = ("cross-site", "same-site")  # pages on other ports of this machine are of the same site


def check_host(hosts: list[str], port: int) -> None:
    """Refuses a request that does not ask for this machine by a name of its own.

    Args:
        hosts: every Host header.
        port: that was asked.

    Raises:
        AccessError: it asks for something else.
    """
    if len(hosts) != 1 or not _is_here(hosts[0], port):
        hint = f"ask for http://127.0.0.1:{port}, or make keys with `precog keys create`"
        message = "without keys the server answers only to this machine's own names: the Host header has another"
        raise AccessError(message, is_known=True, hint=hint)


def check_origin(origin: str | None, port: int, allowed: tuple[str, ...]) -> None:
    """Refuses what web pages of others send.

    Raises:
        AccessError: the page is neither the server's own nor allowed.
    """
    if origin is None or origin.lower() in allowed:
        return
    scheme, _, authority = origin.partition("://")
    if scheme != "http" or not _is_here(authority, port):
        hint = "start the server with --allow-origin and the address of the page"
        raise AccessError("pages of this origin may not ask this server", is_known=True, hint=hint)


def check_site(headers: Mapping[str, str], method: str) -> None:
    """Refuses what a browser says comes from elsewhere, unless somebody opens the address in it.

    Raises:
        AccessError: it comes from elsewhere.
    """
    is_opened = (
        method == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
    if headers.get("sec-fetch-site") in _STRANGE_SITES and not is_opened:
        hint = "start the server with --allow-origin and the address of the page"
        raise AccessError("pages of other sites may not ask this server", is_known=True, hint=hint)


def _is_here(authority: str, port: int) -> bool:
    match = _AUTHORITY.fullmatch(authority)
    return match is not None and is_loopback(match[1] or match[2]) and int(match[3] or 80) == port
