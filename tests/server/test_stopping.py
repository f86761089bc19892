"""Streams while the server stops: what answers ends with its answer, what follows a job is told; nothing is cut off."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from corpora_of import MALTA, events_of, filled, make, upload
from remembered import counting_services
from served import services_of, settings_in, stoppable

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.services import Services
from precog.server.work import Job, Workers

FREE = {"free": True, "always_answer": True, "temperature": 1.0}
ASKED = {"model": "tiny", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 40, "stream": True}
TALK = "\n".join(f"ana: My harbour number {number} is far away." for number in range(12))


@pytest.fixture
def services(tmp_path: Path, choice: ModelChoice) -> Iterator[Services]:
    with counting_services(tmp_path, choice) as made:
        yield made


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Lets streams of work go on beyond their first event once it is set."""
    going_on = threading.Event()
    stream = Workers.stream

    def holding(self: Workers, request: Any, work: Callable[[Job], Any]) -> Any:
        def held_work(job: Job) -> Any:
            has_begun = False

            def emit(event: object) -> None:
                nonlocal has_begun
                job.emit(event)
                if not has_begun:
                    has_begun = True
                    assert going_on.wait(300)

            return work(replace(job, emit=emit))

        return stream(self, request, held_work)

    monkeypatch.setattr(Workers, "stream", holding)
    return going_on


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/chat/completions", {"json": ASKED}, "data: [DONE]"),
        ("/v1/responses", {"json": {"model": "tiny", "input": "Who?", "stream": True}}, "response."),
        ("/v1/corpora/papers/ask", {"json": {"question": "Where?", "stream": True, **FREE}}, "answer"),
        ("/v1/memories/me/transcripts", {"files": {"file": ("t.txt", TALK)}, "data": {"stream": "true"}}, "done"),
        (
            "/v1/memories/me/chat",
            {"json": {"utterance": "Where is Malta?", "corpus": "papers", "stream": True, "options": {"free": True}}},
            "done",
        ),
    ],
)
def test_what_has_begun_is_finished(
    services: Services, held: threading.Event, path: str, body: dict[str, Any], last: str
) -> None:
    with stoppable(services) as (url, stop), httpx.Client(base_url=url, timeout=300) as client:
        if "papers" in str((path, body)):
            held.set()
            filled(client)
            held.clear()
        with client.stream("POST", path, **body) as answer:
            assert answer.status_code == 200, answer.read()
            told = []
            for line in answer.iter_lines():
                if not told:
                    stop()
                    assert services.stopping.wait(300)
                    held.set()
                told.append(line)
    end = [line for line in told if line.startswith("event: ") or line == "data: [DONE]"][-1]
    assert end.removeprefix("event: ").startswith(last)


def test_whoever_follows_a_job_is_told(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    began, going_on = threading.Event(), threading.Event()
    look = type(services.jobs)._run

    def run(self: Any, job: Any) -> None:
        began.set()
        assert going_on.wait(300)
        look(self, job)

    monkeypatch.setattr(type(services.jobs), "_run", run)
    with stoppable(services) as (url, stop), httpx.Client(base_url=url, timeout=300) as client:
        make(client)
        job = upload(client, malta_txt=MALTA)
        assert began.wait(300)
        told = []
        with client.stream("GET", f"/v1/jobs/{job['id']}/events") as answer:
            for line in answer.iter_lines():
                told.append(line)
                stop()
        going_on.set()
    assert [name for name, _ in events_of("\n".join(told))] == ["progress", "interrupted"]


def test_what_takes_longer_than_the_time_of_grace_is_cut_off_and_stops(
    tmp_path: Any, choice: ModelChoice, encoder: Encoder, held: threading.Event
) -> None:
    def follow(client: httpx.Client, stop: Callable[[], None]) -> None:
        with client.stream("POST", "/v1/chat/completions", json=ASKED) as answer:
            for _ in answer.iter_lines():
                stop()

    with services_of(settings_in(tmp_path, grace_sec=0.5), choice, encoder) as services:
        with stoppable(services) as (url, stop), httpx.Client(base_url=url, timeout=300) as client:
            with pytest.raises(httpx.HTTPError):
                follow(client, stop)
            held.set()
        assert services.stopping.is_set()
