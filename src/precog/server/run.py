"""Runs the application until it is told to stop."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Event

import uvicorn
from starlette.types import ASGIApp

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.app import create_app
from precog.server.connection import most_connections, protocol
from precog.server.log import event, set_up
from precog.server.services import Services
from precog.server.settings import ServerSettings
from precog.server.start import prepared
from precog.server.work import Workers
from precog.serving import Scheduler

_BEYOND = 16  # threads for those who are told to come later, and for what needs no model


def serve(
    settings: ServerSettings,
    choice: ModelChoice,
    load_encoder: Callable[[], Encoder],
    *,
    on_ready: Callable[[str], None],
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Serves until SIGTERM or SIGINT; what has begun is finished first, within the time of grace.

    Args:
        settings: how.
        choice: of the model.
        load_encoder: of sentences.
        on_ready: told the address once connections are taken.
        say: told in a line what is done to an older data folder.

    Raises:
        PrecogError: see `prepared`; or there is no such model or encoder.
    """
    with prepared(settings, say=say):
        set_up(settings.log_format, settings.log_level)
        choice = replace(choice, name=str(choice.folder()))
        encoder = load_encoder()
        scheduler = Scheduler(choice.load("once"), max_streams=settings.max_streams, max_waiting=settings.max_waiting)
        workers = Workers(settings.max_streams + settings.max_waiting + _BEYOND)
        with Services(settings, choice, scheduler, encoder, workers).running() as services:
            listen(server_of(services, on_ready))
        event("stopped")


def listen(server: uvicorn.Server) -> None:
    """Takes requests until SIGTERM or SIGINT; what has begun is finished first, within the time of grace."""
    with suppress(KeyboardInterrupt):  # the signal that stopped it, raised once more when all is done
        server.run()


def server_of(services: Services, on_ready: Callable[[str], None]) -> uvicorn.Server:
    """A server that is to be run.

    Args:
        services: that are running.
        on_ready: told the address once connections are taken.
    """
    return server_for(create_app(services), services.settings, services.stopping, on_ready)


def server_for(
    app: ASGIApp, settings: ServerSettings, stopping: Event, on_ready: Callable[[str], None]
) -> uvicorn.Server:
    """The same for another application.

    Args:
        app: that answers requests.
        settings: of the address.
        stopping: set as soon as the server is told to stop.
        on_ready: told the address once connections are taken.
    """
    most = most_connections()
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol(most),
        backlog=most // 2,  # so many are taken at once before any can be closed
        ws="none",
        access_log=False,
        log_config=None,
        proxy_headers=False,  # whoever is behind a proxy comes with a key; an address in a header may be anybody's
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.grace_sec),
    )
    return _Server(config, settings, stopping, on_ready)


class _Server(uvicorn.Server):
    """A server that tells when it takes connections, and when it stops."""

    def __init__(
        self, config: uvicorn.Config, settings: ServerSettings, stopping: Event, on_ready: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._settings, self._stopping, self._on_ready = settings, stopping, on_ready

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]  # sockets as given
        await super().startup(sockets=sockets)  # type: ignore[arg-type]
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    async def shutdown(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]  # sockets as given
        self._stopping.set()
        event("stopping", {"grace_sec": self._settings.grace_sec})
        await super().shutdown(sockets=sockets)  # type: ignore[arg-type]
