"""The description of the API: what the routes cannot say themselves is added here."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

_OPEN = "/healthz"
_KEYS: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key, as `precog keys create` prints it."},
    "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same key."},
}
_JSON = "application/json"
_REFUSED = {
    "error": {
        "code": "missing",
        "message": "there is no such corpus",
        "given": "papers",
        "expected": None,
        "hint": "GET /v1/corpora lists yours",
        "type": "not_found_error",
        "param": None,
    }
}
_FAILURE = {_JSON: {"schema": {"$ref": "#/components/schemas/Failure"}}}
_EVENT = {
    "type": "object",
    "description": "Each event.",
    "properties": {
        "event": {"type": "string", "description": "Its name, if it has one."},
        "data": {"type": "string", "description": "JSON, or `[DONE]`."},
    },
    "required": ["data"],
}


def events(told: str, example: str) -> dict[int | str, dict[str, Any]]:
    """How a route describes that it answers with server-sent events, or can.

    Args:
        told: what the answer is.
        example: the first of its lines.
    """
    content = {"text/event-stream": {"schema": _EVENT, "example": example}}
    return {200: {"description": told, "content": content}}


def describe(app: FastAPI) -> None:
    """Lets an application describe itself completely, once it is asked to."""

    def description() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            app.openapi_schema = _completed(made)
        return app.openapi_schema

    app.openapi = description  # type: ignore[method-assign]  # as FastAPI wants it to be replaced


def operations_of(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and description of every operation."""
    for path, methods in description["paths"].items():
        for operation in methods.values():
            yield path, operation


def _completed(made: dict[str, Any]) -> dict[str, Any]:
    """With summaries, keys and examples."""
    examples = json.loads(files("precog.server").joinpath("examples.json").read_text("utf-8"))
    made["components"]["securitySchemes"] = _KEYS
    made["components"]["schemas"]["Failure"]["examples"] = [_REFUSED]
    made["security"] = [{name: []} for name in _KEYS] + [{}]  # a server without keys needs none
    for path, operation in operations_of(made):
        summary, _, rest = operation.pop("description").partition("\n")
        operation["summary"] = summary.rstrip(".")
        if rest.strip():
            operation["description"] = rest.strip()
        if path == _OPEN:
            operation["security"] = []
            operation["responses"] = {"200": operation["responses"]["200"]}
        for status, answer in operation["responses"].items():
            if status >= "4":  # FastAPI says that errors have the media type of the answer
                answer["content"] = _FAILURE
        _add_examples(operation, examples.get(operation["operationId"], {}))
    return made


def _add_examples(operation: dict[str, Any], found: dict[str, Any]) -> None:
    if "request" in found:
        for body in operation["requestBody"]["content"].values():
            body["example"] = found["request"]
    if "response" in found:
        for status, answer in operation["responses"].items():
            if status.startswith("2"):
                answer["content"][_JSON]["example"] = found["response"]
