"""The description of the API: complete, and true of every answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient
from fuzzed import Fuzzing, a_folder, fuzzing, operations_of
from schemathesis.generation import GenerationMode
from served import client_of, services_of, settings_in

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.openapi import operations_of as described_operations_of

_JSON = "application/json"
_SLOW = ("/verify", "/forget", "/supersede")
"""Ends of paths of operations that read much, or after which much is to be put back, as after those that delete."""


@pytest.fixture
def fuzzed(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> Iterator[Fuzzing]:
    settings = settings_in(tmp_path, allow_roots=(a_folder(tmp_path),))
    with services_of(settings, choice, encoder) as services, fuzzing(services) as made:
        yield made


@pytest.fixture
def description(client: TestClient) -> dict[str, Any]:
    answer = client.get("/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def _run(fuzzed: Fuzzing, num_positive: int, num_negative: int) -> list[str]:
    """Operations behind which nothing was found, so that little was tried."""
    for operation in operations_of(fuzzed.schema):
        part = 3 if operation.method == "delete" or operation.path.endswith(_SLOW) else 1
        fuzzed.run(operation, -(-num_positive // part), GenerationMode.POSITIVE)
        fuzzed.run(operation, -(-num_negative // part), GenerationMode.NEGATIVE)
    assert not fuzzed.failures, "\n\n".join(f"{kind}\n  {shown}" for kind, shown in fuzzed.failures.items())
    return [label for label, statuses in fuzzed.statuses.items() if not any(200 <= one < 300 for one in statuses)]


def test_every_answer_is_as_described(fuzzed: Fuzzing) -> None:
    unreached = _run(fuzzed, 5, 3)
    assert len(unreached) <= 8, unreached  # of some fifty: with so few tries it is chance
    assert sum(fuzzed.cases.values()) >= 200


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_five_thousand_answers_are_as_described(fuzzed: Fuzzing) -> None:
    assert _run(fuzzed, 100, 75) == []
    print(json.dumps(fuzzed.cases, indent=1))
    assert sum(fuzzed.cases.values()) >= 5_000


def test_every_operation_says_what_it_is(description: dict[str, Any]) -> None:
    operations = [operation for _, operation in described_operations_of(description)]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids)) > 40
    for operation in operations:
        assert operation["summary"], operation["operationId"]
        assert not operation["summary"].endswith("."), operation["operationId"]
        assert operation["operationId"].isidentifier()
        assert operation["operationId"].count("_") < 4, "made from the path"
        assert len(operation["tags"]) == 1, operation["operationId"]


def test_every_operation_says_how_it_refuses(description: dict[str, Any]) -> None:
    for path, operation in described_operations_of(description):
        refusals = {status for status in operation["responses"] if status >= "4"}
        if path == "/healthz":
            assert not refusals
            continue
        assert refusals == {"400", "401", "403", "404", "408", "409", "413", "422", "429", "500", "503", "507"}, path
        for status in refusals:
            schema = operation["responses"][status]["content"][_JSON]["schema"]
            assert schema == {"$ref": "#/components/schemas/Failure"}, (path, status)
    assert "HTTPValidationError" not in description["components"]["schemas"]


def test_keys_are_described_and_needed_where_there_are_any(description: dict[str, Any]) -> None:
    schemes = description["components"]["securitySchemes"]
    assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == ("http", "bearer")
    assert (schemes["key"]["in"], schemes["key"]["name"].lower()) == ("header", "x-api-key")
    assert description["security"] == [{"bearer": []}, {"key": []}, {}]
    assert description["paths"]["/healthz"]["get"]["security"] == []


def test_every_answer_and_every_body_has_an_example_that_is_one(description: dict[str, Any]) -> None:
    for path, operation in described_operations_of(description):
        bodies = list(operation.get("requestBody", {}).get("content", {}).items())
        good = [answer for status, answer in operation["responses"].items() if status < "3"]
        assert len(good) == 1, path
        assert good[0]["content"], path
        for media_type, body in [*bodies, *good[0]["content"].items()]:
            place = f"{operation['operationId']} {media_type}"
            if media_type in ("application/gzip", "application/octet-stream"):
                continue  # bytes
            examples = _examples(description, body)
            assert examples, place
            if media_type != "text/event-stream":
                schema = {**body["schema"], "components": description["components"]}
                for example in examples:
                    jsonschema_rs.Draft202012Validator(schema).validate(example)
    _check_example_of_errors(description)


def _examples(description: dict[str, Any], body: dict[str, Any]) -> list[Any]:
    """Of a body, or of its schema, or of one of those that it may have."""
    if "example" in body:
        return [body["example"]]
    found = []
    for schema in [body["schema"], *body["schema"].get("anyOf", ())]:
        name = schema.get("$ref", "").rpartition("/")[2]
        found += description["components"]["schemas"].get(name, schema).get("examples", [])
    return found


def _check_example_of_errors(description: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/Failure", "components": description["components"]}
    [example] = description["components"]["schemas"]["Failure"]["examples"]
    jsonschema_rs.Draft202012Validator(schema).validate(example)


def test_streams_are_described(description: dict[str, Any]) -> None:
    streamed = {
        operation["operationId"]
        for _, operation in described_operations_of(description)
        if "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
    }
    assert streamed == {
        *("create_chat_completion", "create_completion", "create_response", "ask_corpus"),
        *("chat_with_memory", "remember_transcript", "watch_job"),
    }


def test_nothing_is_loaded_from_elsewhere(client: TestClient) -> None:
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404
    assert "https://" not in client.get("/openapi.json").text


def test_the_description_can_be_kept_back(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> None:
    with services_of(settings_in(tmp_path, has_docs=False), choice, encoder) as services, client_of(services) as client:
        assert client.get("/openapi.json").status_code == 404
