"""Errors as HTTP answers: one shape, ``{"error": {code, message, given, expected, hint, type, param}}``.

``type`` and ``param`` are there for clients of other APIs, which read them.
"""

import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from precog.errors import (
    AccessError,
    BusyError,
    CancelledError,
    CorpusError,
    DamagedCorpusError,
    DamagedStateError,
    EncoderError,
    ForeignStateError,
    InputError,
    LimitError,
    MissingError,
    ModelError,
    PrecogError,
    StateError,
    StorageError,
    UsageError,
)
from precog.server.refusal import SlowError, UnavailableError
from precog.server.wording import reworded

_STATUS: tuple[tuple[type[PrecogError], int], ...] = (
    (SlowError, 408),
    (UnavailableError, 503),
    (MissingError, 404),
    (CancelledError, 499),
    (DamagedStateError, 500),
    (DamagedCorpusError, 500),
    (ForeignStateError, 409),
    (StateError, 409),
    (BusyError, 409),
    (StorageError, 507),
    (CorpusError, 409),
    (EncoderError, 409),
    (ModelError, 409),
    (UsageError, 400),
    (InputError, 400),
)
_ASKED_WRONGLY = (UsageError, InputError, MissingError)


class ErrorBody(BaseModel):
    """What is wrong, what was given, what was expected, and what to do."""

    code: str
    message: str
    given: str | None
    expected: str | None
    hint: str | None
    type: str
    param: str | None


class Failure(BaseModel):
    """An error."""

    error: ErrorBody


_TOLD = {
    400: "What is asked for makes no sense, or is not offered.",
    401: "There is no key, or it is none of this server's.",
    403: "The key is not good for this.",
    404: "There is nothing of this name, or not for whoever asks.",
    408: "The body came too slowly.",
    409: "Something is in use, or was made by another model.",
    413: "It is too large.",
    422: "The request is not as it should be.",
    429: "Too much at once: try again after `Retry-After` seconds.",
    500: "Stored bytes are not those that were written, or a bug.",
    503: "The server is stopping.",
    507: "The disk is full, or refuses.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failure, "description": told} for status, told in _TOLD.items()
}
"""How any route may answer, for the description of the API."""


def status_of(error: PrecogError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, AccessError):
        return 403 if error.is_known else 401
    if isinstance(error, LimitError) and not isinstance(error, SlowError | UnavailableError):
        return 413 if error.retry_after_sec is None else 429
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def body_of(error: PrecogError, status: int, param: str | None = None) -> dict[str, object]:
    """The error object, in the words of requests."""
    error = reworded(error)
    kind = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    name = kind.get(status, "invalid_request_error" if status < 500 else "server_error")
    told = {**error.to_json(), "type": name, "param": param}
    if isinstance(error, _ASKED_WRONGLY) and error.expected and error.expected not in error.message:
        told["message"] = f"{error.message}; expected: {error.expected}"  # some clients show nothing else
    return {"error": {key: value and value.encode(errors="replace").decode() for key, value in told.items()}}


def answer_of(error: PrecogError, param: str | None = None) -> JSONResponse:
    """An error as an answer."""
    status = status_of(error)
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, BusyError):
        headers["Retry-After"] = "1"
    if isinstance(error, LimitError) and error.retry_after_sec is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_sec)))
    return JSONResponse(body_of(error, status, param), status, headers)


def bug_of(error: Exception) -> PrecogError:
    """Something that nobody meant, as an error."""
    told = PrecogError("this is a bug in precog", given=type(error).__name__, hint="please report it")
    told.code = "bug"
    return told


def install(app: FastAPI) -> None:
    """Lets the application answer in this shape; what nobody meant is `Exchange`'s."""

    @app.exception_handler(PrecogError)
    async def refused(request: Request, error: PrecogError) -> JSONResponse:
        return answer_of(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        wrong = str(first["msg"]).removeprefix("Value error, ")
        told = f"the request is not as it should be: {where}: {wrong[:1].lower()}{wrong[1:]}"
        refusal = InputError(told, given=where, expected=wrong)
        return JSONResponse(body_of(refusal, 422, where), 422)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, OSError):  # a form is read before any route is asked; the disk did not take it
            return answer_of(StorageError("the upload cannot be kept", hint=error.__cause__.strerror))
        hint = "the API is below /v1" if _is_below_v1(request) else "GET /openapi.json lists what there is"
        refusal = PrecogError(str(error.detail).lower(), hint=hint)
        refusal.code = "http"
        return JSONResponse(body_of(refusal, error.status_code), error.status_code, error.headers)


def _is_below_v1(request: Request) -> bool:
    """Whether a path that is not there would be with /v1 before it."""
    wanted = {**request.scope, "path": f"/v1{request.scope['path']}"}
    return any(route.matches(wanted)[0] is not Match.NONE for route in request.app.routes)
