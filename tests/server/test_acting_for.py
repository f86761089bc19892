"""An administrator acts with `?user=` on what is that user's; for anybody else another's name is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora_of import ANTARCTICA, MALTA, ended, filled, upload
from fastapi.testclient import TestClient
from remembered import counting_services
from served import client_of

from precog.records import ModelChoice
from precog.server.keys import KeyRing
from precog.server.services import Services
from precog.server.tenant import Tenant

QUESTION = {"question": "Who reached the South Pole?", "always_answer": True}
ANA = {"user": "ana"}


@pytest.fixture
def services(tmp_path: Path, choice: ModelChoice) -> Iterator[Services]:
    with counting_services(tmp_path, choice) as made:
        yield made


@pytest.fixture
def users(services: Services) -> Iterator[dict[str, TestClient]]:
    """Ana, who has a corpus; Ben, who has none; and whoever runs the server."""
    ring = KeyRing(services.settings.data)
    scopes = {"ana": ("read", "write"), "ben": ("read", "write"), "root": ("read", "write", "admin")}
    shown = {name: f"Bearer {ring.create(name, scope)[1]}" for name, scope in scopes.items()}
    with (
        client_of(services, Authorization=shown["ana"]) as ana,
        client_of(services, Authorization=shown["ben"]) as ben,
        client_of(services, Authorization=shown["root"]) as root,
    ):
        filled(ana, antarctica_txt=ANTARCTICA)
        yield {"ana": ana, "ben": ben, "root": root}


def calls(job: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Of every route that takes `?user=`, what changes nothing that the next one needs."""
    return [
        ("GET", "/v1/corpora", {}),
        ("GET", "/v1/corpora/papers", {}),
        ("GET", "/v1/corpora/papers/documents", {}),
        ("GET", "/v1/corpora/papers/documents/antarctica.txt", {}),
        ("GET", "/v1/corpora/papers/failures", {}),
        ("POST", "/v1/corpora/papers/search", {"json": {"query": "ice"}}),
        ("POST", "/v1/corpora/papers/ask", {"json": QUESTION}),
        ("POST", "/v1/corpora/papers/ask", {"json": {**QUESTION, "stream": True}}),
        ("POST", "/v1/corpora/papers/verify", {"json": {"chunks": 1}}),
        ("POST", "/v1/plan", {"json": {"corpus": "papers"}}),
        ("POST", "/v1/plan", {"json": {"corpus": "papers", "question": "Who?"}}),
        ("GET", "/v1/jobs", {}),
        ("GET", f"/v1/jobs/{job}", {}),
        ("GET", f"/v1/jobs/{job}/events", {}),
        ("POST", "/v1/corpora", {"json": {"name": "more"}}),
        ("POST", "/v1/corpora/papers/documents", {"files": {"files": ("malta.txt", MALTA)}}),
        ("POST", "/v1/corpora/papers/reindex", {"json": {"codec": "int8"}}),
        ("DELETE", f"/v1/jobs/{job}", {}),
        ("DELETE", "/v1/corpora/papers/documents/antarctica.txt", {}),
        ("DELETE", "/v1/corpora/papers", {}),
    ]


def test_an_administrator_acts_on_what_is_the_users(services: Services, users: dict[str, TestClient]) -> None:
    ana, root = users["ana"], users["root"]
    job = ana.get("/v1/jobs").json()["data"][0]["id"]
    same = ("/v1/corpora", "/v1/corpora/papers", "/v1/corpora/papers/documents", "/v1/jobs", f"/v1/jobs/{job}")
    for path in same:
        assert root.get(path, params=ANA).json() == ana.get(path).json()
    hits = ({"query": "ice"}, "/v1/corpora/papers/search")
    found = [client.post(hits[1], json=hits[0], params=ANA).json()["hits"] for client in (root, ana)]
    assert found[0] == found[1] != []
    for client in (root, ana):
        answer = client.post("/v1/corpora/papers/ask", json=QUESTION, params=ANA)
        assert answer.json()["sources"][0]["document"] == "antarctica.txt"
    for method, path, body in calls(job)[:14]:
        answer = root.request(method, path, params=ANA, **body)
        assert answer.is_success, (method, path, answer.text)
    assert root.get("/v1/corpora").json()["data"] == root.get("/v1/jobs").json()["data"] == []
    assert root.get("/v1/corpora/papers").status_code == 404
    assert not Tenant(services.settings, "root").has_things


def test_what_an_administrator_changes_is_the_users(services: Services, users: dict[str, TestClient]) -> None:
    ana, root = users["ana"], users["root"]
    job = ana.get("/v1/jobs").json()["data"][0]["id"]
    for method, path, body in calls(job)[14:]:
        answer = root.request(method, path, params=ANA, **body)
        assert answer.is_success, (method, path, answer.text)
        if answer.status_code == 202:
            assert ended(ana, answer.json())["state"] == "done"
        if path.endswith("reindex"):
            names = [one["document"] for one in ana.get("/v1/corpora/papers/documents").json()["data"]]
            assert names == ["antarctica.txt", "malta.txt"]
            assert ana.get("/v1/corpora/papers").json()["codec"] == "int8"
    assert [one["name"] for one in ana.get("/v1/corpora").json()["data"]] == ["more"]
    assert ana.get(f"/v1/jobs/{job}").status_code == 404
    assert not Tenant(services.settings, "root").has_things


def test_nobody_else_names_another_user(users: dict[str, TestClient]) -> None:
    ana, ben = users["ana"], users["ben"]
    job = ana.get("/v1/jobs").json()["data"][0]["id"]
    before = ana.get("/v1/corpora/papers").json()
    for method, path, body in calls(job):
        for user in ("ana", "nobody"):  # whether there is such a user or not
            answer = ben.request(method, path, params={"user": user}, **body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "access"), (method, path)
            assert "admin" in answer.json()["error"]["message"]
    assert ana.get("/v1/corpora/papers").json() == before
    assert [one["id"] for one in ana.get("/v1/jobs").json()["data"]] == [job]


def test_everybody_may_name_themselves(users: dict[str, TestClient]) -> None:
    ana = users["ana"]
    assert ana.get("/v1/corpora/papers", params=ANA).json() == ana.get("/v1/corpora/papers").json()
    assert ended(ana, upload(ana, malta_txt=MALTA))["state"] == "done"
