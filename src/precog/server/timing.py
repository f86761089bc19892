"""How long requests take, by the template of their route."""

import asyncio
import time

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precog.server.exchange import GONE
from precog.server.metrics import Metrics


class Timing:
    """An ASGI layer around everything, that counts and times requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, is_whole = time.perf_counter(), 500, False

        async def sending(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            if message["type"] == "http.response.body":
                is_whole = not message.get("more_body", False)

        async def receiving() -> Message:
            nonlocal status
            message = await receive()
            if message["type"] == "http.disconnect" and not is_whole:
                status = GONE
            return message

        try:
            await self._app(scope, receiving, sending)
        except asyncio.CancelledError:
            status = GONE
            raise
        finally:
            route = scope.get("route")
            template = route.path if isinstance(route, Route) else ""
            self._metrics.answered_request(template, scope["method"], status, time.perf_counter() - started)
