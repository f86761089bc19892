"""Corpora are made, filled, asked and deleted over HTTP."""

import json
import threading
from pathlib import Path

import pytest
from corpora_of import (
    ANTARCTICA,
    FORGETTING,
    MALTA,
    code_of,
    ended,
    events_of,
    files_below,
    filled,
    make,
    upload,
)
from fastapi.testclient import TestClient
from served import USER, client_of, listening, services_of, settings_in, users_of

from precog.corpus.ask import Asker, AskOptions
from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.services import Services

QUESTION = "Who reached the South Pole?"


def test_a_corpus_is_made_listed_and_deleted(client: TestClient, tmp_path: Path) -> None:
    made = make(client, codec="int8", budget_bytes=10**9)
    assert (made["codec"], made["budget_bytes"], made["documents"]) == ("int8", 10**9, 0)
    assert made["model"] == "tiny"
    assert made["created"] > 1.6e9
    assert str(tmp_path) not in json.dumps(made)
    [listed] = client.get("/v1/corpora").json()["data"]
    assert listed == client.get("/v1/corpora/papers").json() == made
    assert client.delete("/v1/corpora/papers").json() == {"object": "corpus", "name": "papers", "deleted": True}
    assert client.get("/v1/corpora").json()["data"] == []
    assert code_of(client.get("/v1/corpora/papers")) == (404, "missing")
    assert files_below(tmp_path / "data") == FORGETTING


def test_settings_that_cannot_be_are_refused_and_leave_nothing(client: TestClient) -> None:
    for wrong in (
        {"codec": "fp8"},
        {"name": "../up"},
        {"name": ""},
        {"chunk_tokens": 1},
        {"overlap": 30, "chunk_tokens": 32},
        {"layers": "some"},
        {"study_steps": 3},
        {"budget_bytes": -1},
        {"colour": "red"},
        {"name": "\ud800"},
    ):
        answer = client.post("/v1/corpora", content=json.dumps({"name": "papers", **wrong}))
        assert answer.status_code in (400, 422), (wrong, answer.text)
        assert "--" not in answer.json()["error"]["message"]
    assert client.get("/v1/corpora").json()["data"] == []


def test_a_name_is_taken_once(client: TestClient) -> None:
    make(client)
    assert code_of(client.post("/v1/corpora", json={"name": "papers"})) == (409, "corpus")


def test_uploads_are_found_and_asked_for_as_on_the_command_line(client: TestClient, services: Services) -> None:
    job = filled(client)
    assert job["report"]["documents"]["new"] == 2
    assert job["report"]["missing"] == []
    assert job["documents"] == ["antarctica.txt", "malta.txt"]
    folder = services.tenant_of("local").own_corpus("papers")
    with Asker(folder, model=services.choice, home=services.settings.home) as asker:
        assert asker.searcher is not None
        found = [hit.to_json() for hit in asker.searcher.search(QUESTION, 2).found]
        expected = {"question": QUESTION, **asker.ask(QUESTION, AskOptions(always_answer=True)).to_json()}
    hits = client.post("/v1/corpora/papers/search", json={"query": QUESTION, "top_k": 2}).json()
    assert hits["hits"] == found
    assert set(hits["timings_sec"]) == {"encode", "search"}
    answer = client.post("/v1/corpora/papers/ask", json={"question": QUESTION, "always_answer": True}).json()
    for untimed in (answer, expected):
        del untimed["timings_sec"], untimed["mask"]
    assert answer == expected
    assert answer["sources"][0]["document"] == "antarctica.txt"
    by_words = client.post("/v1/corpora/papers/search", json={"query": "Valletta", "retrieval": "bm25"}).json()["hits"]
    assert [hit["document"] for hit in by_words] == ["malta.txt"]
    assert by_words[0]["dense"] == 0.0


def test_an_answer_streams_and_ends_with_itself(client: TestClient) -> None:
    filled(client)
    asked = {"question": QUESTION, "free": True, "max_tokens": 12}
    whole = client.post("/v1/corpora/papers/ask", json=asked).json()
    events = events_of(client.post("/v1/corpora/papers/ask", json={**asked, "stream": True}).text)
    assert [name for name, _ in events[:-1]] == ["delta"] * (len(events) - 1)
    assert len(events) > 2
    assert events[-1][0] == "answer"
    assert events[-1][1]["text"] == whole["text"] == "".join(data["text"] for _, data in events[:-1])


def test_a_stream_that_cannot_begin_is_refused_as_any_request(client: TestClient) -> None:
    make(client)
    asked = {"question": QUESTION, "stream": True}
    refused = client.post("/v1/corpora/papers/ask", json=asked)
    assert code_of(refused) == (409, "corpus")
    assert refused.json()["error"]["hint"] is None
    assert code_of(client.post("/v1/corpora/other/ask", json=asked)) == (404, "missing")


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": " "},
        {"question": ""},
        {"question": "x" * 16_001},
        {"question": "\ud800"},
        {"top_k": 0},
        {"top_k": 10**30},
        {"inject": 4},
        {"min_confidence": 0.5, "free": True},
        {"temperature": 1.0},
        {"compose": "sum"},
        {"layers": "top:99"},
        {"layers": "x"},
        {"mode": "magic"},
        {"seed": -1},
    ],
)
def test_what_cannot_be_asked_is_refused(client: TestClient, wrong: dict[str, object]) -> None:
    filled(client)
    body = json.dumps({"question": QUESTION, **wrong})
    answer = client.post("/v1/corpora/papers/ask", content=body)
    assert answer.status_code in (400, 422), answer.text
    assert "--" not in answer.text


def test_a_later_upload_replaces_what_had_its_name(client: TestClient, tmp_path: Path) -> None:
    filled(client)
    job = ended(client, upload(client, malta_txt="Gozo is the second island of Malta."))
    assert job["report"]["documents"] == {"new": 0, "changed": 1, "unchanged": 0, "failed": 0, "missing": 0}
    shown = client.get("/v1/corpora/papers/documents/malta.txt").json()
    assert [chunk["text"] for chunk in shown["chunks"]] == ["Gozo is the second island of Malta."]
    assert shown["document"]["bytes"] == 35
    again = ended(client, upload(client, malta_txt="Gozo is the second island of Malta."))
    assert again["report"]["documents"]["unchanged"] == 1
    assert [path.name for path in (tmp_path / "data").rglob("jobs/*/*")] == ["job.json"] * 3


def test_documents_and_failures_are_listed_by_page(client: TestClient) -> None:
    filled(client, a_txt=ANTARCTICA, b_txt=MALTA, c_pdf="%PDF-1.4 and no more", d_txt="")
    page = client.get("/v1/corpora/papers/documents", params={"limit": 1, "offset": 1}).json()
    assert page["total"] == 4
    assert [row["document"] for row in page["data"]] == ["b.txt"]
    failures = client.get("/v1/corpora/papers/failures").json()
    assert [row["document"] for row in failures["data"]] == ["c.pdf", "d.txt"]
    assert failures["data"][1]["reason"] == "the file is empty"
    assert code_of(client.get("/v1/corpora/papers/documents/none.txt")) == (404, "missing")
    assert client.get("/v1/corpora/papers/documents", params={"limit": 0}).status_code == 422


def test_reindex_and_verify(client: TestClient) -> None:
    filled(client)
    client.post("/v1/corpora/papers/ask", json={"question": QUESTION})
    job = client.post("/v1/corpora/papers/reindex", json={"codec": "int8", "keys": "text"})
    assert job.status_code == 202
    done = ended(client, job.json())
    assert (done["state"], done["progress"]["unit"]) == ("done", "tokens")
    found = client.get("/v1/corpora/papers").json()
    assert (found["codec"], found["keys"]) == ("int8", "text")
    assert client.post("/v1/corpora/papers/ask", json={"question": QUESTION}).status_code == 200
    report = client.post("/v1/corpora/papers/verify", json={"chunks": 1}).json()
    assert report["ok"]
    assert report["records_checked"] == found["states"]


def test_a_studied_corpus_answers_from_focused_states(client: TestClient) -> None:
    assert make(client, quality="study")["quality"] == "study"
    ended(client, upload(client, antarctica_txt=ANTARCTICA))
    answer = client.post("/v1/corpora/papers/ask", json={"question": QUESTION, "always_answer": True}).json()
    start, end = answer["sources"][0]["focus"]
    assert ANTARCTICA[start:end].strip() == "Roald Amundsen reached the South Pole on 14 December 1911."
    assert client.post("/v1/plan", json={"corpus": "papers", "question": QUESTION}).json()["chosen"] == "inject"


def test_nobody_sees_what_is_anothers(services: Services) -> None:
    with users_of(services) as client:
        bea = {USER: "bea"}
        job = filled(client)
        none = client.get("/v1/corpora/nothing", headers=bea)
        assert client.get("/v1/corpora", headers=bea).json()["data"] == []
        assert client.get("/v1/jobs", headers=bea).json()["data"] == []
        asked = {"question": QUESTION}
        for method, path, body in (
            ("GET", "", None),
            ("DELETE", "", None),
            ("GET", "/documents", None),
            ("GET", "/failures", None),
            ("GET", "/documents/malta.txt", None),
            ("DELETE", "/documents/malta.txt", None),
            ("POST", "/search", {"query": QUESTION}),
            ("POST", "/ask", asked),
            ("POST", "/ask", {**asked, "stream": True}),
            ("POST", "/verify", {}),
            ("POST", "/reindex", {}),
            ("POST", "/documents?name=a.txt", None),
            ("POST", "/ingest", {"paths": ["/tmp"]}),
        ):
            answer = client.request(method, f"/v1/corpora/papers{path}", json=body, headers=bea)
            assert answer.status_code == 404, (method, path, answer.text)
            assert answer.json() == json.loads(none.text.replace("nothing", "papers")), path
        for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", "")):
            assert client.request(method, f"/v1/jobs/{job['id']}{path}", headers=bea).status_code == 404
        assert client.post("/v1/plan", json={"corpus": "papers"}, headers=bea).status_code == 404
        assert client.post("/v1/corpora", json={"name": "papers"}, headers=bea).status_code == 201
        assert client.delete("/v1/corpora/papers", headers=bea).status_code == 200
        assert client.get("/v1/corpora/papers").json()["documents"] == 2


def test_a_shared_corpus_may_be_asked_and_not_changed(
    services: Services, choice: ModelChoice, encoder: Encoder, tmp_path: Path
) -> None:
    with client_of(services) as client:
        filled(client)
    shared = {"library": services.tenant_of("local").own_corpus("papers")}
    settings = settings_in(tmp_path / "other", shared=shared)
    with services_of(settings, choice, encoder) as others, client_of(others) as client:
        [listed] = client.get("/v1/corpora").json()["data"]
        assert (listed["name"], listed["shared"], listed["documents"]) == ("library", True, 2)
        assert client.post("/v1/corpora/library/ask", json={"question": QUESTION}).status_code == 200
        assert code_of(client.delete("/v1/corpora/library")) == (403, "access")
        assert code_of(client.delete("/v1/corpora/library/documents/malta.txt")) == (403, "access")
        assert code_of(client.post("/v1/corpora/library/reindex")) == (403, "access")
        assert code_of(client.post("/v1/corpora", json={"name": "library"})) == (409, "corpus")


def test_many_ask_while_documents_come_in(services: Services) -> None:
    with client_of(services) as client:
        filled(client)
        texts = {f"more{number}_txt": f"Island {number} has {number} lighthouses.\n\n{MALTA}" for number in range(20)}
        job = upload(client, **texts)
        answers: list[int] = []

        def ask() -> None:
            for _ in range(3):
                answer = client.post("/v1/corpora/papers/ask", json={"question": QUESTION, "max_tokens": 2})
                answers.append(answer.status_code)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 12
        assert ended(client, job)["report"]["documents"]["new"] == 20
        found = client.post("/v1/corpora/papers/search", json={"query": "Island 7 lighthouses"}).json()["hits"]
        assert "more7.txt" in [hit["document"] for hit in found]


def test_a_corpus_goes_while_it_is_asked(services: Services) -> None:
    with client_of(services) as client:
        filled(client)
        codes: set[int] = set()
        begun = threading.Event()

        def ask() -> None:
            while (code := client.post("/v1/corpora/papers/ask", json={"question": QUESTION}).status_code) == 200:
                codes.add(code)
                begun.set()
            codes.add(code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert begun.wait(300)
        assert client.delete("/v1/corpora/papers").status_code == 200
        for thread in threads:
            thread.join(300)
        assert codes == {200, 404}


def test_a_second_question_opens_nothing(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(client)
    asked = {"question": QUESTION, "max_tokens": 2}
    assert client.post("/v1/corpora/papers/ask", json=asked).status_code == 200
    monkeypatch.setattr("precog.store.database.sqlite3.connect", None)
    monkeypatch.setattr("precog.corpus.search.HybridIndex.open", None)
    monkeypatch.setattr("precog.encoders.loading.OnnxEncoder", None)
    assert client.post("/v1/corpora/papers/ask", json=asked).status_code == 200
    assert client.post("/v1/corpora/papers/search", json={"query": QUESTION, "retrieval": "bm25"}).status_code == 200


def test_the_events_of_an_answer_come_over_a_port(services: Services) -> None:
    import httpx

    with client_of(services) as client:
        filled(client)
    body = {"question": QUESTION, "free": True, "max_tokens": 8, "stream": True}
    with (
        listening(services) as url,
        httpx.stream("POST", f"{url}/v1/corpora/papers/ask", json=body, timeout=300) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of("".join(answer.iter_text()))
    assert [name for name, _ in events][-1] == "answer"
