"""A server over a tiny model: in this process, or listening on a port of its own."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from fastapi.testclient import TestClient
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.app import create_app
from precog.server.principal import SCOPES, Principal
from precog.server.run import server_of
from precog.server.services import Services
from precog.server.settings import ServerSettings
from precog.server.work import Workers
from precog.serving import Scheduler

USER = "x-test-user"
"""The header that names who asks, in requests of `users_of`."""


def settings_in(folder: Path, **changed: object) -> ServerSettings:
    made = ServerSettings(data=folder / "data", home=folder / "home", requests_per_minute=0)
    return replace(made, **changed)  # type: ignore[arg-type]


@contextlib.contextmanager
def services_of(settings: ServerSettings, choice: ModelChoice, encoder: Encoder) -> Iterator[Services]:
    assert choice.loaded is not None
    scheduler = Scheduler(choice.loaded, max_streams=settings.max_streams, max_waiting=settings.max_waiting)
    made = Services(settings, choice, scheduler, encoder, Workers(settings.max_streams + settings.max_waiting))
    with made.running() as services:
        yield services


@contextlib.contextmanager
def client_of(services: Services, **headers: str) -> Iterator[TestClient]:
    """Requests without a network."""
    base = f"http://127.0.0.1:{services.settings.port}"
    with TestClient(create_app(services), base_url=base, headers=headers, raise_server_exceptions=False) as client:
        yield client


class Acting:
    """An ASGI layer between guard and routes: whoever a header names asks."""

    def __init__(self, app: ASGIApp, scopes: tuple[str, ...]) -> None:
        self._app, self._scopes = app, frozenset(scopes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            user = dict(scope["headers"]).get(USER.encode(), b"local").decode()
            scope.setdefault("state", {})["principal"] = Principal(user, self._scopes)
        await self._app(scope, receive, send)


@contextlib.contextmanager
def users_of(services: Services, *scopes: str) -> Iterator[TestClient]:
    """Requests without a network, each of the user that its header names."""
    app = create_app(services)
    app.user_middleware.append(Middleware(Acting, scopes=scopes or SCOPES))  # the last is the innermost
    base = f"http://127.0.0.1:{services.settings.port}"
    with TestClient(app, base_url=base, raise_server_exceptions=False) as client:
        yield client


@contextlib.contextmanager
def listening(services: Services) -> Iterator[str]:
    """The address of a server that listens on this machine until the block ends."""
    with stoppable(services) as (url, _):
        yield url


@contextlib.contextmanager
def stoppable(services: Services) -> Iterator[tuple[str, Callable[[], None]]]:
    """The same, and what tells it to stop."""
    ready: queue.Queue[str] = queue.Queue()
    server = server_of(services, ready.put)
    server.config.port = 0
    thread = threading.Thread(target=server.run)
    thread.start()

    def stop() -> None:
        server.should_exit = True

    try:
        yield ready.get(timeout=300), stop
    finally:
        stop()
        thread.join(300)
