"""The application: routes, errors and guard put together."""

from importlib import import_module
from importlib.metadata import version

from fastapi import FastAPI

from precog.server import failure
from precog.server.exchange import Exchange
from precog.server.guard import Guard
from precog.server.openapi import describe
from precog.server.services import Services
from precog.server.timing import Timing

ROUTES = (
    "health",
    "metrics",
    "models",
    "chat",
    "completions",
    "embeddings",
    "responses",
    "corpora",
    "documents",
    "asking",
    "jobs",
    "plan",
    "edge",
    "memories",
    "memory_transfer",
    "memory_chat",
    "page",
)
"""Files of `routes`, each with a ``router``."""


def create_app(services: Services) -> FastAPI:
    """The application over services that are running."""
    settings = services.settings
    app = FastAPI(
        title="PRECOG",
        version=version("precog-ssm"),
        summary="Answers from what a state-space model has read once.",
        openapi_url="/openapi.json" if settings.has_docs else None,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy it would lead to http://, and the key with it
    )
    app.state.services = services
    failure.install(app)
    for name in ROUTES:
        app.include_router(import_module(f"precog.server.routes.{name}").router, responses=failure.ERRORS)
    describe(app)
    app.add_middleware(Guard, services=services)
    app.add_middleware(Exchange)
    app.add_middleware(Timing, metrics=services.metrics)  # outermost: refusals and bugs count, too
    return app
