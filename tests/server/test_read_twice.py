"""Corpora whose chunks were read twice, on a server whose model is open to read them once."""

from pathlib import Path

import pytest
from corpora_of import ANTARCTICA, MALTA, ended, filled, make, upload
from fastapi.testclient import TestClient
from remembered import counting_services
from served import client_of, services_of, settings_in

from precog.corpus.indexing import IndexRequest, index_documents
from precog.encoders import Encoder
from precog.records import ModelChoice

QUESTION = {"question": "Who reached the South Pole?", "always_answer": True}


def check_answers(client: TestClient, name: str = "papers") -> None:
    answer = client.post(f"/v1/corpora/{name}/ask", json=QUESTION)
    assert answer.status_code == 200, answer.text
    assert answer.json()["mode"] == "inject"
    assert answer.json()["composition"]["exact"]
    report = client.post(f"/v1/corpora/{name}/verify", json={"chunks": 1}).json()
    assert (report["ok"], report["violations"]) == (True, [])


def test_a_corpus_is_made_filled_and_asked(client: TestClient) -> None:
    assert make(client, quality="twice")["quality"] == "twice"
    job = ended(client, upload(client, antarctica_txt=ANTARCTICA))
    assert (job["state"], job["report"]["failures"]) == ("done", [])
    check_answers(client)
    for body in ({"corpus": "papers"}, {"corpus": "papers", "question": "Who?"}):
        assert client.post("/v1/plan", json=body).status_code == 200
    free = client.post("/v1/corpora/papers/ask", json={**QUESTION, "free": True, "max_tokens": 4})
    assert free.status_code == 200, free.text
    assert ended(client, upload(client, malta_txt=MALTA))["state"] == "done"
    ended(client, client.post("/v1/corpora/papers/reindex", json={"quality": "fast"}).json())
    assert client.get("/v1/corpora/papers").json()["quality"] == "fast"
    check_answers(client)


def test_a_corpus_is_read_again_as_twice(client: TestClient) -> None:
    filled(client)
    before = client.get("/v1/corpora/papers").json()
    assert ended(client, client.post("/v1/corpora/papers/reindex", json={"quality": "twice"}).json())["state"] == "done"
    after = client.get("/v1/corpora/papers").json()
    assert (after["quality"], after["chunks"]) == ("twice", before["chunks"])
    check_answers(client)


@pytest.mark.parametrize("encode_mode", ["twice", "twice-reversed"])
def test_one_of_the_command_line_is_shared(
    tmp_path: Path, choice: ModelChoice, encoder: Encoder, encode_mode: str
) -> None:
    text, folder = tmp_path / "antarctica.txt", tmp_path / "papers"
    text.write_text(ANTARCTICA)
    made_by = ModelChoice(name=choice.name, device="cpu")
    index_documents(IndexRequest((str(text),), folder, made_by, wanted={"encode_mode": encode_mode}))
    settings = settings_in(tmp_path, shared={"papers": folder})
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        check_answers(client)


def test_conversations_have_it_but_not_beside_a_memory(tmp_path: Path, choice: ModelChoice) -> None:
    with counting_services(tmp_path, choice) as services, client_of(services) as client:
        make(client, quality="twice")
        assert ended(client, upload(client, malta_txt=MALTA))["state"] == "done"
        client.post("/v1/memories/me/deposits", json={"text": "I moved to Valletta on Malta."})
        said = {"model": services.model_name, "messages": [{"role": "user", "content": "Where is Malta?"}]}
        asked = {"model": services.model_name, "input": "Where is Malta?"}
        for path, body in (("/v1/chat/completions", said), ("/v1/responses", asked)):
            answer = client.post(path, json={**body, "precog": {"corpus": "papers"}})
            assert answer.status_code == 200, answer.text
        first = client.post("/v1/responses", json={**asked, "precog": {"corpus": "papers"}}).json()
        second = client.post("/v1/responses", json={**asked, "previous_response_id": first["id"]})
        assert second.status_code == 200, second.text
        for path, body in (
            ("/v1/chat/completions", {**said, "precog": {"corpus": "papers", "memory": True}}),
            ("/v1/memories/me/chat", {"utterance": "Where is Malta?", "corpus": "papers"}),
        ):
            refused = client.post(path, json=body)
            assert refused.status_code == 400
            error = refused.json()["error"]
            assert error["code"] == "usage"
            assert "from both" in error["message"]
            assert "quality fast" in error["hint"]
