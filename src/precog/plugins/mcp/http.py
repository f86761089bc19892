"""The Model Context Protocol over HTTP, behind the guard of `precog serve`: this machine alone, or keys."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precog.errors import MissingError, PrecogError, UsageError
from precog.plugins.mcp.protocol import PATH, http_app
from precog.plugins.mcp.tools import Tool
from precog.server import failure
from precog.server.exchange import Exchange
from precog.server.guard import Guard
from precog.server.log import set_up
from precog.server.principal import Principal
from precog.server.run import listen, server_for
from precog.server.settings import ServerSettings
from precog.server.start import check_listening


@dataclass(frozen=True)
class Guarded:
    """What the guard needs to know.

    Attributes:
        settings: address, keys, limits.
        stopping: set when nothing new is begun.
    """

    settings: ServerSettings
    stopping: threading.Event = field(default_factory=threading.Event)


def serve_http(server: "Server[Any]", settings: ServerSettings, user: str, on_ready: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT; what has begun is finished first.

    Args:
        server: of the protocol.
        settings: of the address, the keys and the log.
        user: whose knowledge it is; keys of others are refused.
        on_ready: told the address once connections are taken.

    Raises:
        UsageError: an address that others can reach, and no key.
        StorageError: the keys are damaged.
        PortError: the address cannot be listened on.
    """
    check_listening(settings)
    set_up(settings.log_format, settings.log_level)
    guarded = Guarded(settings)
    app = guarded_app(server, guarded, user)
    listen(server_for(app, settings, guarded.stopping, lambda url: on_ready(url + PATH)))


def guarded_app(server: "Server[Any]", guarded: Guarded, user: str) -> ASGIApp:
    """The application with all that is around it."""
    return Exchange(Guard(_Bound(http_app(server), user), guarded))


def check_scope(tool: Tool[Any], request: Any) -> None:
    """Refuses a tool that changes something to whoever may only read.

    Raises:
        AccessError: the key lacks the scope.
    """
    principal = request.scope["state"]["principal"]
    assert isinstance(principal, Principal)
    principal.check("read" if tool.is_read_only else "write")


class _Bound:
    """An ASGI layer that lets in the keys of one user, and of administrators."""

    def __init__(self, app: ASGIApp, user: str) -> None:
        self._app, self._user = app, user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            principal = scope.get("state", {}).get("principal")
            if principal is None or scope["path"] != PATH:
                raise MissingError("there is nothing here", hint=f"the protocol is spoken at {PATH}")
            principal.acting_for(self._user)
        except PrecogError as error:
            await failure.answer_of(error)(scope, receive, send)
            return
        if scope["method"] != "POST":  # there are no sessions to end, and no events to wait for
            answer = failure.answer_of(UsageError("every message is a POST", given=scope["method"][:20]))
            answer.status_code = 405
            answer.headers["allow"] = "POST"
            await answer(scope, receive, send)
            return
        await _while_there(self._app, scope, receive, send)


async def _while_there(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """One request, which is cancelled when the client goes before its answer: not all of the library looks for that."""
    is_whole, gone = anyio.Event(), anyio.Event()
    is_answered = False

    async def received() -> Message:
        if is_whole.is_set():
            await gone.wait()
            return {"type": "http.disconnect"}
        message = await receive()
        if not message.get("more_body", False):
            is_whole.set()
        return message

    async def sent(message: Message) -> None:
        nonlocal is_answered
        await send(message)
        is_answered |= message["type"] == "http.response.body" and not message.get("more_body", False)

    async def watch() -> None:
        await is_whole.wait()
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        if not is_answered:
            tasks.cancel_scope.cancel()

    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            await app(scope, received, sent)
        except Exception as error:  # raised outside: what passes a group is wrapped into one
            raised = error
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised
