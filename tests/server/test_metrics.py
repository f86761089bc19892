from collections.abc import Iterator
from pathlib import Path

import pytest
from corpora_of import filled
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from remembered import DEPOSITS, ME, counting_services, said
from served import client_of, users_of

from precog.records import ModelChoice
from precog.server.services import Services

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def remembering(tmp_path: Path, choice: ModelChoice) -> Iterator[Services]:
    with counting_services(tmp_path, choice) as made:
        yield made


@pytest.fixture
def client(remembering: Services) -> Iterator[TestClient]:
    with client_of(remembering) as made:
        yield made


def samples(client: TestClient) -> Samples:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def requests(found: Samples, route: str, method: str, status: str) -> float:
    labels = (("method", method), ("route", route), ("status", status))
    return found.get(("precog_http_requests_total", labels), 0.0)


def test_requests_are_counted_by_the_template_of_their_route(client: TestClient) -> None:
    said(client, "I moved to Lisbon.")
    for number in (1, 2, 3):
        client.get(f"{DEPOSITS}/{number}")
    found = samples(client)
    assert requests(found, f"{DEPOSITS}/{{deposit_id}}", "GET", "200") == 1
    assert requests(found, f"{DEPOSITS}/{{deposit_id}}", "GET", "404") == 2
    labels = (("method", "GET"), ("route", f"{DEPOSITS}/{{deposit_id}}"))
    assert found["precog_http_request_seconds_count", labels] == 3
    assert found["precog_http_request_seconds_sum", labels] > 0


def test_paths_and_methods_that_there_are_not_share_a_label(client: TestClient) -> None:
    for n in range(5):
        client.get(f"/secret{n}")
        client.request(f"ODD{n}", f"/secret{n}")
    found = samples(client)
    assert requests(found, "other", "GET", "404") == 5
    assert requests(found, "other", "other", "404") == 5
    assert not any("secret" in value for _, labels in found for _, value in labels)


def test_tokens_are_counted_that_are_read_written_and_not_read(client: TestClient) -> None:
    said(client, "I moved to Lisbon.")
    before = samples(client)
    read = before["precog_tokens_read_total", ()]
    assert read == before["precog_ingest_tokens_total", ()] + 1  # the boundary that opens the chunk
    assert before["precog_ingest_seconds_total", ()] > 0
    asked = {"utterance": "Where did I move to?", "options": {"free": True}}
    reply = client.post(f"{ME}/chat", json=asked).json()
    after = samples(client)
    assert after["precog_tokens_saved_total", ()] == client.get(ME).json()["num_tokens"]
    assert after["precog_first_token_seconds_count", ()] == 1
    assert after["precog_tokens_generated_total", ()] > 0
    done = after["precog_tokens_generated_total", ()] + after["precog_tokens_read_total", ()] - read
    assert reply["tokens_processed"] - done in (0, 1)  # the last token may be said and not read


def test_what_is_known_already_is_not_counted_again(client: TestClient) -> None:
    for _ in range(2):
        said(client, "I moved to Lisbon.", time="2024-05-01")
    found = samples(client)
    assert found["precog_ingest_tokens_total", ()] == client.get(ME).json()["num_tokens"]


def test_the_process_is_watched(client: TestClient) -> None:
    found = samples(client)
    assert found["process_resident_memory_bytes", ()] > 1 << 20
    assert found["process_open_fds", ()] > 0


def test_two_servers_count_apart(client: TestClient, tmp_path: Path, choice: ModelChoice) -> None:
    client.get("/healthz")
    with counting_services(tmp_path / "other", choice) as services, client_of(services) as other:
        assert requests(samples(other), "/healthz", "GET", "200") == 0
    assert requests(samples(client), "/healthz", "GET", "200") == 1


def test_a_key_that_is_no_administrators_sees_none(remembering: Services) -> None:
    with users_of(remembering, "read", "write") as client:
        assert client.get("/metrics").status_code == 403


def test_answers_from_a_corpus_are_counted_on_every_route(client: TestClient) -> None:
    job = filled(client)
    found = samples(client)
    assert found["precog_ingest_tokens_total", ()] == job["report"]["tokens"] > 0
    assert found["precog_corpora_opened_total", ()] == 0
    extension = {"corpus": "papers", "always_answer": True}
    question = {"model": client.get("/v1/models").json()["data"][0]["id"], "precog": extension}
    chat = {**question, "messages": [{"role": "user", "content": "Where is Malta?"}]}
    for number, (path, body) in enumerate(
        (
            ("/v1/chat/completions", chat),
            ("/v1/responses", {**question, "input": "Where is Malta?"}),
            ("/v1/corpora/papers/ask", {"question": "Where is Malta?", "always_answer": True}),
            ("/v1/chat/completions", {**chat, "precog": {**extension, "memory": True, "free": True}}),
            (f"{ME}/chat", {"utterance": "Where is Malta?", "corpus": "papers", "options": {"free": True}}),
        ),
        start=1,
    ):
        before = samples(client)
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        after = samples(client)
        assert after["precog_first_token_seconds_count", ()] == number
        assert after["precog_tokens_saved_total", ()] > before["precog_tokens_saved_total", ()]
    assert after["precog_corpora_opened_total", ()] == 1


def test_a_response_that_goes_on_saves_what_was_read_before(client: TestClient) -> None:
    model = client.get("/v1/models").json()["data"][0]["id"]
    first = client.post("/v1/responses", json={"model": model, "input": "Who found radium?"}).json()
    assert samples(client)["precog_tokens_saved_total", ()] == 0
    client.post("/v1/responses", json={"model": model, "input": "And where?", "previous_response_id": first["id"]})
    found = samples(client)
    assert found["precog_tokens_saved_total", ()] > 0
    assert found["precog_first_token_seconds_count", ()] == 2
