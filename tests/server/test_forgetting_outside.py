"""What the command line forgets, stored responses of the server have read, too: they go, and no others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpora_of import ANTARCTICA, filled
from ended import Run, runner
from fastapi.testclient import TestClient
from remembered import said

from precog.memory.place import memory_folder
from precog.server.data_folder import mark
from precog.server.outside import forget_responses_of_corpus
from precog.server.services import Services
from precog.server.settings import LOCAL_USER
from precog.server.tenant import Tenant

USER = ("--user", LOCAL_USER, "--json")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, services: Services) -> Run:
    monkeypatch.setenv("PRECOG_HOME", str(services.settings.home))
    monkeypatch.setenv("PRECOG_SERVER_DATA", str(services.settings.data))
    monkeypatch.setenv("PRECOG_MODEL", str(services.choice.name))
    services.settings.data.mkdir(exist_ok=True)
    mark(services.settings.data)
    return runner(capsys)


def responded(client: TestClient, **precog: Any) -> str:
    sent = {"model": "tiny", "input": "Where is it?", "max_output_tokens": 3, "precog": {**precog, "free": True}}
    answer = client.post("/v1/responses", json=sent)
    assert answer.status_code == 200, answer.text
    made: str = answer.json()["id"]
    return made


def kept(client: TestClient, *names: str) -> list[int]:
    return [client.get(f"/v1/responses/{name}").status_code for name in names]


def test_a_users_folders_have_one_name_in_both_places(services: Services) -> None:
    tenant = Tenant(services.settings, "Ana")
    assert tenant.folder.name == memory_folder(services.settings.home, "Ana").name


def test_forgetting_a_document_reaches_responses(client: TestClient, services: Services, run: Run) -> None:
    filled(client)
    filled(client, "other")
    plain, used, other = responded(client), responded(client, corpus="papers"), responded(client, corpus="other")
    assert kept(client, plain, used, other) == [200, 200, 200]
    folder = Tenant(services.settings, LOCAL_USER).own_corpus("papers")
    gone = run("forget", "--corpus", folder, "--document", "malta.txt", "--json")
    assert (gone.status, gone.json["hits"], gone.json["responses"]) == (0, 0, 1)
    assert kept(client, plain, used, other) == [200, 404, 200]
    told = run("forget", "--corpus", folder, "--document", "antarctica.txt")
    assert "stored response" not in told.out
    refused = run("forget", "--corpus", folder, "--document", "nothing.txt")
    assert refused.status == 1
    assert kept(client, plain, other) == [200, 200]


def test_forgetting_in_a_memory_reaches_responses(client: TestClient, run: Run) -> None:
    first = said(client, "I moved to Lisbon.")
    plain, used = responded(client), responded(client, memory=True, remember="nothing")
    gone = run("memory", "forget", "--id", first, "--user", LOCAL_USER)
    assert gone.status == 0
    assert "removed 1 stored response of a server" in gone.out
    assert kept(client, plain, used) == [200, 404]
    said(client, "I moved to Porto.")
    used = responded(client, memory=True, remember="nothing")
    assert run("memory", "purge", "--yes", *USER).json["responses"] == 1
    assert kept(client, plain, used) == [200, 404]


def test_of_somebody_without_responses_nothing_is_made(services: Services, run: Run) -> None:
    deposit = run("memory", "remember", "I moved to Lisbon.", "--user", "ben", "--json").json["ids"][0]
    gone = run("memory", "forget", "--id", deposit, "--user", "ben", "--json")
    assert gone.json["responses"] == 0
    assert not Tenant(services.settings, "ben").folder.exists()


def test_a_shared_corpus_is_known_by_the_settings(
    client: TestClient, services: Services, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(ANTARCTICA)
    folder = tmp_path / "corpus"
    assert run("index", tmp_path / "a.txt", "--corpus", folder).status == 0
    services.settings = replace(services.settings, shared={"docs": folder})
    used = responded(client, corpus="docs")
    assert forget_responses_of_corpus(replace(services.settings, shared={}), folder) == 0
    assert forget_responses_of_corpus(services.settings, folder) == 1
    assert kept(client, used) == [404]
