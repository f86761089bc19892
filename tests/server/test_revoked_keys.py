"""A key that is revoked while its work goes on: the work ends, the client is told why, others are not touched."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from corpora_of import MALTA, events_of, make, upload
from remembered import counting_services
from served import listening

from precog.records import ModelChoice
from precog.server.keys import KeyRing
from precog.server.services import Services
from precog.server.work import Job, Workers

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 40}


@pytest.fixture
def services(tmp_path: Path, choice: ModelChoice, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr("precog.server.keys._LOOK_SEC", 0.05)
    with counting_services(tmp_path, choice) as made:
        yield made


class Endless:
    """Work that goes on after its first event until nobody waits any more."""

    def __init__(self, *, talks: bool) -> None:
        self.talks = talks
        self.began, self.ended = threading.Event(), threading.Event()

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> "Endless":
        stream = Workers.stream

        def endless(workers: Workers, request: Any, work: Any) -> Any:
            def held(job: Job) -> Any:
                def emit(event: object) -> None:
                    job.emit(event)
                    self.began.set()
                    while not job.cancelled.wait(0.01):
                        if self.talks:
                            job.emit(event)
                    self.ended.set()

                return work(replace(job, emit=emit))

            return stream(workers, request, held)

        monkeypatch.setattr(Workers, "stream", endless)
        return self


def headers(ring: KeyRing, user: str) -> tuple[str, dict[str, str]]:
    key, text = ring.create(user, ("read", "write"))
    return key.id, {"Authorization": f"Bearer {text}"}


@pytest.mark.parametrize("talks", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/chat/completions", CHAT), ("/v1/responses", {"model": "tiny", "input": "Who?", "store": False})],
)
def test_a_stream_ends_when_its_key_is_revoked(
    services: Services, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], talks: bool
) -> None:
    ring = KeyRing(services.settings.data)
    key_id, shown = headers(ring, "ana")
    endless = Endless(talks=talks).patch(monkeypatch)
    with listening(services) as url, httpx.Client(base_url=url, timeout=300, headers=shown) as client:
        told: list[str] = []
        with client.stream("POST", path, json={**body, "stream": True}) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if not told:
                    assert endless.began.wait(300)
                    ring.revoke(key_id)
                told.append(line)
        assert endless.ended.wait(300)
    last = "\n".join(told).strip().rpartition("\n\n")[2]
    [(name, data)] = events_of(last)
    assert name == "error"
    assert (data["error"]["code"], data["error"]["message"]) == ("access", "this key has been revoked")
    assert data["error"]["type"] == "authentication_error"


def test_an_answer_that_has_not_begun_is_refused(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(services.settings.data)
    key_id, shown = headers(ring, "ana")
    _, others = headers(ring, "ana")
    began, ended = threading.Event(), threading.Event()
    model = type(services).model

    def held(self: Services, principal: Any, cancelled: threading.Event) -> ModelChoice:
        began.set()
        assert cancelled.wait(300)
        ended.set()
        return model(self, principal, cancelled)

    with listening(services) as url, httpx.Client(base_url=url, timeout=300) as client:
        monkeypatch.setattr(type(services), "model", held)
        answers: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(client.post("/v1/chat/completions", json=CHAT, headers=shown))
        )
        asking.start()
        assert began.wait(300)
        ring.revoke(key_id)
        asking.join(300)
        assert ended.wait(300)
        monkeypatch.setattr(type(services), "model", model)
        assert client.post("/v1/chat/completions", json=CHAT, headers=others).status_code == 200
    [answer] = answers
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "access"


def test_whoever_follows_a_job_is_told_and_the_job_goes_on(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(services.settings.data)
    key_id, shown = headers(ring, "ana")
    _, others = headers(ring, "ana")
    going_on, run = threading.Event(), type(services.jobs)._run

    def held(self: Any, job: Any) -> None:
        assert going_on.wait(300)
        run(self, job)

    monkeypatch.setattr(type(services.jobs), "_run", held)
    with listening(services) as url, httpx.Client(base_url=url, timeout=300, headers=shown) as client:
        make(client)
        job = upload(client, malta_txt=MALTA)
        told = []
        with client.stream("GET", f"/v1/jobs/{job['id']}/events") as answer:
            for line in answer.iter_lines():
                if not told:
                    ring.revoke(key_id)
                told.append(line)
        going_on.set()
        events = events_of("\n".join(told))
        assert [name for name, _ in events] == ["progress", "error"]
        assert events[-1][1]["error"]["code"] == "access"
        with client.stream("GET", f"/v1/jobs/{job['id']}/events", headers=others) as answer:
            assert events_of("\n".join(answer.iter_lines()))[-1][0] == "done"
