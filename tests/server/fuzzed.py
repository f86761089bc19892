"""Requests made from the API's own description, to a server that has something to find."""

import collections
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from corpora_of import filled
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import client_of

from precog.server.app import create_app
from precog.server.services import Services

CORPUS, DOCUMENT, MODEL, ENCODER = "papers", "malta.txt", "tiny", "all-MiniLM-L6-v2-int8"
SAID = "I keep the spare key below the third flower pot."
_SAID = {"deposit_id": SAID, "other_id": "The spare key is with Ben now."}
_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
_FIELDS = {"code", "message", "given", "expected", "hint", "type", "param"}
_TRANSCRIPT = b"[1 May 2026, 09:00] Ana: I moved to Lisbon.\n[1 May 2026, 09:01] Ben: Why Lisbon?\n"
_MOST_TOKENS = 8
_MOST = dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _MOST_TOKENS)
_MOST |= {"study_steps": 1, "study_seconds": 1}
_UNLED = 8
_NEEDED = frozenset(
    ("model", "messages", "prompt", "input", "name", "query", "question", "text", "utterance", "options", "precog")
) | {"corpus", "tokens", "paths", "files", "file", "old", "new", "stream", "free", "max_tokens", "speaker", "ids"}
"""Fields of bodies that stay."""


@dataclass
class Fuzzing:
    """A server, what is in it, and what was found.

    Attributes:
        services: of it.
        client: that fills it.
        schema: as Schemathesis has it.
        known: values that lead somewhere, by the names that paths, queries and bodies have for them.
        cases: how many requests each operation had.
        statuses: how each was answered.
        failures: what is wrong, each kind once, with a request that shows it.
    """

    services: Services
    client: TestClient
    schema: Any
    known: dict[str, Any] = field(default_factory=dict)
    cases: collections.Counter[str] = field(default_factory=collections.Counter)
    statuses: dict[str, collections.Counter[int]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def fill(self) -> None:
        """Puts back what requests have deleted."""
        for job in self.client.get("/v1/jobs").json()["data"]:
            if job["ended"] is None:
                self.client.delete(f"/v1/jobs/{job['id']}")
        if self.client.get(f"/v1/corpora/{CORPUS}/documents/{DOCUMENT}").status_code != 200:
            self.client.delete(f"/v1/corpora/{CORPUS}")
            self.known["id"] = filled(self.client, CORPUS)["id"]
        elif self.client.get(f"/v1/jobs/{self.known['id']}").status_code != 200:
            self.known["id"] = self.client.post(f"/v1/corpora/{CORPUS}/reindex").json()["id"]
        if not all(self._holds(self.known.get(name)) for name in _SAID):
            self.known["fills"] = self.known.get("fills", 0) + 1  # what is superseded is remembered no second time
            for name, text in _SAID.items():
                said = {"text": text, "speaker": "Ana", "place": f"House {self.known['fills']}"}
                told = self.client.post("/v1/memories/me/deposits", json=said)
                self.known[name] = told.json()["ids"][0]
            self.known["archive"] = self.client.get("/v1/memories/me/export").content
        if self.client.get(f"/v1/responses/{self.known.get('response_id')}").status_code != 200:
            asked = {"model": MODEL, "input": "Who found radium?", "max_output_tokens": 4}
            self.known["response_id"] = self.client.post("/v1/responses", json=asked).json()["id"]

    def _holds(self, deposit_id: int | None) -> bool:
        answer = self.client.get(f"/v1/memories/me/deposits/{deposit_id}")
        return answer.status_code == 200 and answer.json()["superseded_by"] is None

    def run(self, operation: Any, num_cases: int, mode: GenerationMode) -> None:
        """Asks an operation what the description allows, or what it does not."""

        @settings(
            max_examples=num_cases,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), num_options=st.integers(0, 9))
        def ask(case: Any, num_options: int) -> None:
            if num_options < _UNLED:
                self._lead(case, num_options)
            self.ask(case)

        self.fill()
        with suppress(Unsatisfiable):  # an operation that takes nothing has nothing that is wrong
            ask()

    def ask(self, case: Any) -> None:
        """Sends one request, and looks at its answer."""
        label = case.operation.label
        _shorten(case.body)
        self.cases[label] += 1
        answer = case.call(base_url=f"http://127.0.0.1:{self.services.settings.port}", timeout=600)
        self.statuses.setdefault(label, collections.Counter())[answer.status_code] += 1
        try:
            case.validate_response(answer, checks=_CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                self._found(case, answer, f"{type(failure).__name__}: {failure!s}"[:600])
        for wrong in self._wrong(answer):
            self._found(case, answer, wrong)
        if answer.status_code < 300 and (case.method == "DELETE" or case.path.endswith(("/forget", "/supersede"))):
            self.fill()

    def _wrong(self, answer: Any) -> Iterator[str]:
        """What our own rules say against an answer."""
        text = answer.content.decode(errors="replace")
        settings = self.services.settings
        inside = (str(settings.data), str(settings.home), self.services.choice.name, "Traceback (", "site-packages")
        if any(secret in text for secret in inside):
            yield "the answer tells of the server's inside"
        if answer.status_code < 400:
            return
        if SAID in text or "Knights" in text:
            yield "an error tells what is stored"
        try:
            told = json.loads(text)
        except ValueError:
            yield "an error is no JSON"
            return
        if set(told) != {"error"} or set(told["error"]) != _FIELDS or not told["error"]["message"]:
            yield "an error has not the shape of errors"

    def _found(self, case: Any, answer: Any, what: str) -> None:
        kind = f"{case.operation.label} {answer.status_code} {what[:160]}"
        body = answer.content.decode(errors="replace")
        shown = f"{what}\n  {case.as_curl_command()[:800]}\n  {body[:800]}"
        self.failures.setdefault(kind, shown)

    def _lead(self, case: Any, num_options: int) -> None:
        """Lets names lead to what is there, and leaves out options, of which many contradict each other."""
        known = {"name": CORPUS, "document": DOCUMENT, **self.known}
        if case.path.startswith("/v1/models"):
            known["name"] = MODEL
        path = case.path_parameters or {}
        case.path_parameters = {name: known.get(name, value) for name, value in path.items()}
        if isinstance(case.query, dict) and num_options:
            case.query.pop("user", None)
        if not isinstance(case.body, dict):
            return
        last = case.path.rpartition("/")[2]
        model = self.services.encoder.name if last == "embeddings" else MODEL
        wanted = {"model": model, "corpus": CORPUS, "user": "local"}
        wanted["previous_response_id"] = self.known["response_id"]
        for holder in (case.body, case.body.get("precog"), case.body.get("options")):
            if isinstance(holder, dict):
                for name in sorted(set(holder) - _NEEDED)[num_options:]:
                    del holder[name]
                holder |= {name: one for name, one in wanted.items() if holder.get(name) is not None}
        case.body |= self._wanted(last, num_options)

    def _wanted(self, last: str, number: int) -> dict[str, Any]:
        """Values of the body of an operation whose path ends like that."""
        match last:
            case "transcripts":
                return {"file": _TRANSCRIPT}
            case "import":
                return {"file": self.known["archive"]}
            case "documents":
                return {"files": [b"Oban has a harbour."]}
            case "ingest":
                return {"paths": [str(self.services.settings.allow_roots[0])]}
            case "supersede":
                return {"old": self.known["deposit_id"], "new": self.known["other_id"]}
            case "forget":
                left_out = dict.fromkeys(("query", "before", "after", "speaker"))
                return {"ids": [self.known["deposit_id"]], "all": False, **(left_out if number % 2 else {})}
            case "plan":
                return (
                    {"corpus": CORPUS, "tokens": None}
                    if number % 2
                    else {"corpus": None, "question": None, "tokens": 64}
                )
        return {}


def _shorten(body: object) -> None:
    """Lets nothing take longer than it takes to see that it works."""
    if not isinstance(body, dict):
        return
    for name, most in _MOST.items():
        value = body.get(name)
        if type(value) in (int, float) and value > most:
            body[name] = most
    if "messages" in body or "prompt" in body:
        body.setdefault("max_tokens", _MOST_TOKENS)
        if body["max_tokens"] is None:
            body["max_tokens"] = _MOST_TOKENS
    if "input" in body and "dimensions" not in body:
        body.setdefault("max_output_tokens", _MOST_TOKENS)
        if body["max_output_tokens"] is None:
            body["max_output_tokens"] = _MOST_TOKENS
    if body.get("free") is True and "question" in body and body.get("max_tokens") is None:
        body["max_tokens"] = _MOST_TOKENS


@contextmanager
def fuzzing(services: Services) -> Iterator[Fuzzing]:
    """A server over services whose every operation can be asked."""
    app = create_app(services)
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    with client_of(services) as client:
        yield Fuzzing(services, client, schema)


def operations_of(schema: Any) -> list[Any]:
    """All of them."""
    return [found.ok() for found in schema.get_all_operations()]


def a_folder(folder: Path) -> Path:
    """A folder of the server's machine with one text."""
    made = folder / "srv"
    made.mkdir()
    (made / "note.txt").write_text("Oban has a harbour.\n")
    return made
