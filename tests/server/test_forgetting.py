"""What is forgotten over HTTP is gone from the responses that have read it, too, to the last byte."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpora_of import filled
from fastapi.testclient import TestClient
from remembered import DEPOSITS, ME, bytes_below, counting_services

from precog.records import ModelChoice
from precog.server.services import Services
from precog.server.tenant import Tenant
from precog.store.responses import ResponseFolder

SECRET = "The password of the safe is Quokka."
DOCUMENT = "/v1/corpora/papers/documents/secret.txt"


@pytest.fixture
def services(tmp_path: Path, choice: ModelChoice) -> Iterator[Services]:
    with counting_services(tmp_path, choice) as made:
        yield made


def respond(client: TestClient, question: str, **fields: Any) -> str:
    answer = client.post("/v1/responses", json={"model": "tiny", "input": question, "max_output_tokens": 8, **fields})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


@pytest.mark.parametrize("kind", ["memory", "corpus"])
def test_a_chain_of_responses_goes_with_what_it_has_read(client: TestClient, services: Services, kind: str) -> None:
    if kind == "memory":
        [number] = client.post(DEPOSITS, json={"text": SECRET}).json()["ids"]
        extension: dict[str, object] = {"memory": True, "remember": "nothing", "always_answer": True}
    else:
        filled(client, secret_txt=SECRET, malta_txt="Malta lies south of Sicily.")
        extension = {"corpus": "papers", "always_answer": True}
    first = respond(client, "What is the password of the safe?", precog=extension)
    second = respond(client, "Is that all?", previous_response_id=first)
    plain = respond(client, "Who found radium?")
    folder = ResponseFolder(Tenant(services.settings, "local").responses)
    states = [folder.get(one).state for one in (first, second)]
    marks = [state[at : at + 64] for state in states for at in range(0, len(state) - 64, max(64, len(state) // 16))]
    marks = [mark for mark in marks if len(set(mark)) > 16]  # zeros are anybody's
    assert len(marks) > 4

    def everything() -> bytes:
        return bytes_below(services.settings.data) + bytes_below(services.settings.home)

    before = everything()
    assert b"quokka" in before.lower()
    assert all(mark in before for mark in marks)
    if kind == "memory":
        done = client.post(f"{ME}/forget", json={"ids": [number], "proof": True}).json()
        assert (done["complete"], done["responses"]) == (True, 2)
    else:
        done = client.delete(DOCUMENT).json()
        assert done["forgotten"] == ["secret.txt"]
    assert done["hits"] == 0
    assert done["searched_for"] > 0
    assert [client.get(f"/v1/responses/{one}").status_code for one in (first, second, plain)] == [404, 404, 200]
    again = {"model": "tiny", "input": "And?", "previous_response_id": second}
    assert client.post("/v1/responses", json=again).status_code == 404
    left = everything()
    assert b"quokka" not in left.lower()
    assert not any(mark in left for mark in marks)
