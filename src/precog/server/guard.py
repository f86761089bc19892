"""Who comes in: keys, hosts, origins, sizes, rates; every request passes here first."""

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Protocol, runtime_checkable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precog.errors import AccessError, InputError, LimitError, PrecogError, StorageError
from precog.server import failure
from precog.server.body import Body, GoneError
from precog.server.json_body import check_json, is_json
from precog.server.keys import Key, KeyRing
from precog.server.limits import Buckets, neighbourhood
from precog.server.log import event
from precog.server.origin import check_host, check_origin, check_site
from precog.server.principal import SCOPES, Principal
from precog.server.refusal import SlowError, UnavailableError
from precog.server.settings import LOCAL_USER, ServerSettings

_OPEN = re.compile(r"/|/healthz|/page/[a-z_-]+\.[a-z]+")
"""What needs no key: whether the server answers, and the web page, which holds nothing of anybody's."""
_UPLOAD = re.compile(r"/v1/corpora/[^/]+/documents(/.*)?|/v1/memories(/.*)?/(import|transcripts)")
_LARGE_BYTES = 1 << 16
_FAILURES_PER_MINUTE = 30
_LOCAL = Principal(LOCAL_USER, frozenset(SCOPES))
_EXPOSED = "X-Request-Id, Retry-After, WWW-Authenticate"


@runtime_checkable
class Guarded(Protocol):
    """What a guard needs to know of what it stands before."""

    @property
    def settings(self) -> ServerSettings:
        """Address, keys, limits."""
        ...

    @property
    def stopping(self) -> Event:
        """Set when nothing new is begun."""
        ...


class Guard:
    """An ASGI layer that says who asks, or refuses.

    Whatever answers finds in the request's state the `Principal`, and ``check_key``, which raises once its key is none
    any more: work that lasts calls it again and again.
    """

    def __init__(self, app: ASGIApp, services: Guarded) -> None:
        self._app, self._services, self._settings = app, services, services.settings
        self._keys = KeyRing(services.settings.data)
        self._asked, self._failed = Buckets(), Buckets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no WebSockets here"})
            return
        if scope["type"] != "http" or _OPEN.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answering = _allowing(send, headers.get("origin"), self._settings.allow_origins)
        body = Body(receive, self._max_bytes(scope, headers))
        try:
            if self._services.stopping.is_set():
                raise UnavailableError("the server is stopping", "ask again in a moment")
            if headers.get("origin") and "access-control-request-method" in headers and scope["method"] == "OPTIONS":
                self._check_page(headers, scope)
                await _preflight(headers)(scope, receive, answering)
                return
            principal = self._admit(scope, headers)
            scope.setdefault("state", {}).update(principal=principal, check_key=partial(self._check_key, principal))
            if "\0" in scope["path"]:
                raise InputError("no path has a NUL in it")
            if "content-length" in headers and "transfer-encoding" in headers:
                raise InputError("the body of the request has two lengths", hint="send one of them")
            body.check_length(headers.get("content-length"))
            if is_json(headers.get("content-type", "")):
                await _check_json(await body.read())
        except GoneError:
            return
        except PrecogError as error:
            await _refuse(error, scope, body, headers, answering)
            return
        await self._pass(scope, body, headers, answering)

    async def _pass(self, scope: Scope, body: Body, headers: Headers, send: Send) -> None:
        """Lets the application answer; what it says of a body that was refused under its hands is replaced."""
        has_started = False

        async def sending(message: Message) -> None:
            nonlocal has_started
            if has_started or body.refusal is None:
                has_started = True
                await send(message)

        try:
            await self._app(scope, body.receive, sending)
        except LimitError:
            if body.refusal is None:
                raise
        if body.refusal is not None and not has_started:
            await _refuse(body.refusal, scope, body, headers, send)

    def _max_bytes(self, scope: Scope, headers: Headers) -> int:
        is_upload = scope["method"] in ("POST", "PUT") and _UPLOAD.fullmatch(scope["path"])
        is_file = is_upload and not is_json(headers.get("content-type", ""))
        return self._settings.max_upload_bytes if is_file else self._settings.max_body_bytes

    def _admit(self, scope: Scope, headers: Headers) -> Principal:
        """Who asks.

        Raises:
            AccessError: nobody who may.
            LimitError: somebody who asks too often.
        """
        address = neighbourhood(scope["client"][0]) if scope.get("client") else "unknown"
        if not self._is_keyed():
            self._check_page(headers, scope)
            self._asked.take(address, self._settings.requests_per_minute)
            return _LOCAL
        try:
            key = self._key(headers)
        except AccessError:
            self._failed.take(address, _FAILURES_PER_MINUTE)
            raise
        own = key.requests_per_minute
        self._asked.take(key.id, self._settings.requests_per_minute if own is None else own)
        return key.principal

    def _is_keyed(self) -> bool:
        with _readable():
            return self._keys.is_needed

    def _key(self, headers: Headers) -> Key:
        token = _token(headers)
        with _readable():
            return self._keys.find(token)

    def _check_key(self, principal: Principal) -> None:
        """Refuses to go on with work whose key is none any more; whoever came without one may go on.

        Raises:
            AccessError: it was revoked, or has expired.
            UnavailableError: the file of keys is damaged.
        """
        if principal.key_id:
            with _readable():
                self._keys.check(principal.key_id)

    def _check_page(self, headers: Headers, scope: Scope) -> None:
        """Refuses pages of others, and without keys everything that is not this machine's own."""
        allowed, origin = self._settings.allow_origins, headers.get("origin")
        port = scope["server"][1] if scope.get("server") else self._settings.port
        if self._is_keyed():
            if origin is None or origin.lower() not in allowed:
                hint = "start the server with --allow-origin and the address of the page"
                raise AccessError("pages of this origin may not ask this server", is_known=True, hint=hint)
            return
        if not self._settings.is_loopback:
            raise AccessError("a server that others can reach needs keys", hint="`precog keys create` makes one")
        check_host(headers.getlist("host"), port)
        if len(headers.getlist("origin")) > 1:
            raise AccessError("a request has one origin", is_known=True)
        check_origin(origin, port, allowed)
        if origin is None:
            check_site(headers, scope["method"])


async def _check_json(data: bytes) -> None:
    """Looks at a body; at a large one in a thread, so that others are answered meanwhile."""
    if len(data) > _LARGE_BYTES:
        await asyncio.to_thread(check_json, data)
    else:
        check_json(data)


@contextmanager
def _readable() -> Iterator[None]:
    """Raises what is wrong with the file of keys as something that names no folder of the server's."""
    try:
        yield
    except StorageError as error:
        event("keys", level=logging.ERROR, error=error)
        raise UnavailableError("the server cannot read its keys", "ask whoever runs it") from error


def _token(headers: Headers) -> str:
    """The key that a request shows.

    Raises:
        AccessError: it shows none.
    """
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        return token.strip()
    if headers.get("x-api-key"):
        return headers["x-api-key"].strip()
    raise AccessError("a key is needed", hint="send it as `Authorization: Bearer pk-…`")


def _preflight(headers: Headers) -> Response:
    allowed = {
        "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
        "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Api-Key"
        + "".join(f", {name}" for name in re.findall(r"[A-Za-z0-9-]+", _wanted(headers))),
        "Access-Control-Max-Age": "600",
    }
    if headers.get("access-control-request-private-network") == "true":
        allowed["Access-Control-Allow-Private-Network"] = "true"
    return Response(status_code=204, headers=allowed)


def _wanted(headers: Headers) -> str:
    return headers.get("access-control-request-headers", "")[:1000]


def _allowing(send: Send, origin: str | None, allowed: tuple[str, ...]) -> Send:
    """Tells the browser that a page of an origin that is allowed may read the answer."""
    if not allowed:
        return send

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(b"vary", b"Origin")]
            if origin is not None and origin.lower() in allowed:
                added.append((b"access-control-allow-origin", origin.encode("latin-1")))
                added.append((b"access-control-expose-headers", _EXPOSED.encode()))
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sending


async def _refuse(error: PrecogError, scope: Scope, body: Body, headers: Headers, send: Send) -> None:
    """Answers; a client that is still sending reads it only when somebody takes what it sends."""
    answer = failure.answer_of(error)
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body or body.is_whole:
        await answer(scope, body.receive, send)
        return
    fields = [*answer.raw_headers, (b"connection", b"close")]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": fields})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    if "expect" not in headers and not isinstance(error, SlowError):
        await body.drain()
    await send({"type": "http.response.body", "body": b"", "more_body": False})
