from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from remembered import ME, bytes_below, counting_services, said, texts
from served import client_of

from precog.memory.place import memory_folder
from precog.records import ModelChoice
from precog.server import user_memory
from precog.server.services import Services

SECRET = "Quokka is the password of the safe."


@pytest.fixture
def remembering(tmp_path: Path, choice: ModelChoice) -> Iterator[Services]:
    with counting_services(tmp_path, choice) as made:
        yield made


@pytest.fixture
def client(remembering: Services) -> Iterator[TestClient]:
    with client_of(remembering) as made:
        yield made


def test_forgetting_with_a_proof_leaves_no_byte(client: TestClient, remembering: Services) -> None:
    number = said(client, SECRET, speaker="Ana")
    said(client, "I like rain.", speaker="Ben")
    client.post(f"{ME}/chat", json={"utterance": "What is the password?"})
    folder = memory_folder(remembering.settings.home, "local")
    assert b"Quokka" in bytes_below(folder)
    done = client.post(f"{ME}/forget", json={"ids": [number], "proof": True}).json()
    assert done["forgotten"] == [number]
    assert done["complete"] is True
    assert done["hits"] == 0
    assert done["searched_for"] > 0
    assert b"quokka" not in bytes_below(remembering.settings.home).lower()
    assert texts(client) == ["I like rain."]


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "what is the password of the safe"},
        {"speaker": "Ana"},
        {"before": "2024-01-01"},
        {"speaker": "Ana", "after": "2019-01-01", "before": "2024-01-01"},
    ],
)
def test_conditions_choose_what_goes(client: TestClient, asked: dict[str, str]) -> None:
    number = said(client, SECRET, speaker="Ana", time="2020-01-01")
    said(client, "I like rain.", speaker="Ben", time="2025-01-01")
    assert client.post(f"{ME}/forget", json=asked).json()["forgotten"] == [number]
    assert texts(client) == ["I like rain."]


def test_all_goes_when_all_is_named(client: TestClient) -> None:
    said(client, SECRET)
    said(client, "I like rain.")
    assert len(client.post(f"{ME}/forget", json={"all": True}).json()["forgotten"]) == 2
    assert texts(client) == []


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"proof": True},
        {"ids": [1], "all": True},
        {"ids": [77]},
        {"query": "   "},
        {"speaker": "nobody"},
        {"before": "soon"},
        {"before": "2020-01-01", "after": "2021-01-01"},
        {"before": "2020-01-01", "after": "2020-01-01"},
    ],
)
def test_what_chooses_nothing_is_refused(client: TestClient, asked: dict[str, object]) -> None:
    said(client, SECRET)
    answer = client.post(f"{ME}/forget", json=asked)
    assert answer.status_code == 400
    assert "--" not in answer.json()["error"]["message"]
    assert texts(client) == [SECRET]


def test_responses_that_have_read_the_memory_go_only_when_something_is_forgotten(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(
        user_memory,
        "forget_using",
        lambda services, user, kind: asked.append((user, kind)) or 3,
    )
    number = said(client, SECRET)
    client.post(f"{ME}/forget", json={"ids": [77]})
    assert asked == []
    assert client.post(f"{ME}/forget", json={"ids": [number]}).json()["responses"] == 6
    assert asked == [("local", "memory")] * 2
    client.delete(ME)
    assert len(asked) == 4


def test_purging_leaves_no_folder(client: TestClient, remembering: Services) -> None:
    said(client, SECRET)
    done = client.delete(ME).json()
    assert done["purged"] is True
    assert done["files"] > 0
    assert done["leftovers"] == []
    assert b"quokka" not in bytes_below(remembering.settings.home).lower()
    assert not memory_folder(remembering.settings.home, "local").exists()
    said(client, "I like rain.")
    assert texts(client) == ["I like rain."]
