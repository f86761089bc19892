"""One request and its answer, seen from outside: a number for both, a line in the log, headers that no answer lacks."""

import asyncio
import logging
import secrets
import time
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precog.errors import AccessError
from precog.server import failure
from precog.server.log import event

REQUEST_ID = "X-Request-Id"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
GONE = 499
"""Status of a request whose client has gone, in the log and in what is counted."""
_POLICY = b"content-security-policy"
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (_POLICY, b"frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


class Exchange:
    """The outermost ASGI layer; what a bug raises ends here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = _Seen(scope, receive, send)
        began = time.perf_counter()
        try:
            await self._app(scope, seen.receive, seen.send)
        except asyncio.CancelledError:
            seen.is_gone = True
            event("cancelled", {"request": seen.request_id}, level=logging.WARNING)
            raise
        except Exception as error:
            name = "refused" if isinstance(error, AccessError) else "bug"  # a key revoked under an answer that flows
            event(name, {"request": seen.request_id}, level=logging.ERROR, error=error)
            if seen.status:
                raise _AlreadyToldError from None  # half an answer is out: the connection is to be cut
            await failure.answer_of(failure.bug_of(error))(scope, seen.receive, seen.send)
        finally:
            event("request", {**_line(scope, seen), "ms": round((time.perf_counter() - began) * 1000, 1)})


class _AlreadyToldError(Exception):
    """Something that the log has."""


class _Seen:
    """What passes between client and application."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self.request_id = secrets.token_hex(12)
        self.status = self.bytes_in = self.bytes_out = 0
        self.is_gone = self._is_whole = False
        scope.setdefault("state", {})["request_id"] = self.request_id

    async def receive(self) -> Message:
        message = await self._receive()
        self.is_gone |= message["type"] == "http.disconnect" and not self._is_whole
        self.bytes_in += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": _with_always(self._scope, self.request_id, message.get("headers", ()))}
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)
        if message["type"] == "http.response.body":
            self._is_whole = not message.get("more_body", False)


def _with_always(scope: Scope, request_id: str, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    headers = list(headers)
    ours = [*_ALWAYS, (REQUEST_ID.lower().encode(), request_id.encode())]
    if scope["path"].startswith("/v1"):
        ours.append((b"cache-control", b"no-store"))
    names = {name.lower() for name, _ in headers}
    if _POLICY in names:  # a page has one of its own, which is stricter
        ours = [(name, value) for name, value in ours if name != _POLICY]
    names = {name for name, _ in ours}
    return [*((name, value) for name, value in headers if name.lower() not in names), *ours]


def _line(scope: Scope, seen: _Seen) -> dict[str, object]:
    """What the log has of a request: the pattern of its path, since names of corpora and users stand in the path."""
    principal = scope["state"].get("principal")
    return {
        "method": scope["method"] if scope["method"] in METHODS else "OTHER",
        "route": getattr(scope.get("route"), "path", None),
        "status": GONE if seen.is_gone else seen.status or GONE,
        "bytes_in": seen.bytes_in,
        "bytes_out": seen.bytes_out,
        "key": principal.key_id if principal is not None else None,
        "request": seen.request_id,
    }
