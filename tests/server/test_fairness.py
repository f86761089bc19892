"""One user floods the server: another one is admitted and answered, whatever both ask for."""

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from corpora_of import ANTARCTICA, make, upload
from fastapi.testclient import TestClient
from httpx import Response
from served import client_of, services_of, settings_in

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.keys import KeyRing
from precog.server.services import Services

PLACES, MOST = 18, 16
"""Requests that the server works on, and those that one user may have of them."""
CHAT = ("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 4})
EMBED = ("/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": "Who?"})
SEARCH = ("/v1/corpora/papers/search", {"query": "ice"})


@pytest.fixture
def users(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> Iterator[tuple[Services, TestClient, TestClient]]:
    settings = settings_in(tmp_path, max_streams=2, max_waiting=PLACES - 2)
    ring = KeyRing(settings.data)
    keys = [ring.create(name, ("read", "write"))[1] for name in ("ana", "ben")]
    with services_of(settings, choice, encoder) as services:
        first, second = (client_of(services, Authorization=f"Bearer {key}") for key in keys)
        with first as ana, second as ben:
            yield services, ana, ben


@contextmanager
def flooding(services: Services, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, all that the user of a client can have worked on is worked on, and what exceeds it was refused."""
    opened, held, lock = threading.Event(), [0], threading.Lock()
    embed, full = services.encoder.encode_query, threading.Event()

    def waits(text: str) -> np.ndarray:
        if text == "hold":
            with lock:
                held[0] += 1
                if held[0] == most:
                    full.set()
            assert opened.wait(300)
        return embed(text)

    most = MOST
    monkeypatch.setattr(services.encoder, "encode_query", waits)
    with ThreadPoolExecutor(most) as pool:
        body = {"model": "all-MiniLM-L6-v2", "input": "hold"}
        answers = [pool.submit(client.post, "/v1/embeddings", json=body) for _ in range(most)]
        try:
            assert full.wait(300)
            yield
        finally:
            opened.set()
        assert [answer.result().status_code for answer in answers] == [200] * most
    monkeypatch.setattr(services.encoder, "encode_query", embed)


def test_who_floods_is_told_to_wait_and_others_are_answered(
    users: tuple[Services, TestClient, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, ana, ben = users
    for client in (ana, ben):
        make(client)
    with flooding(services, ana, monkeypatch):
        assert services.workers.num_busy == MOST
        for path, body in (CHAT, EMBED, SEARCH):
            refused = ana.post(path, json=body)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            error = refused.json()["error"]
            assert (error["code"], error["message"]) == ("limit", "too many of your requests are worked on at once")
            answer = ben.post(path, json=body)
            assert answer.status_code == 200, answer.text
        assert ana.post("/v1/corpora/papers/documents", files={"files": ("a.txt", ANTARCTICA)}).status_code == 429
        upload(ben, a_txt=ANTARCTICA)
        assert ben.post("/v1/memories/me/deposits", json={"text": "I moved to Lisbon."}).status_code == 200
    assert ana.post(*EMBED[:1], json=EMBED[1]).status_code == 200
    assert services.workers.num_busy == 0


def test_who_floods_with_answers_leaves_room_for_answers(
    users: tuple[Services, TestClient, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    services, ana, ben = users
    opened, backbone = threading.Event(), services.scheduler.backbone
    read = type(backbone).read_padded
    step = type(backbone).read

    def held(self, *given):
        assert opened.wait(300)
        return read(self, *given)

    def held_too(self, *given):
        assert opened.wait(300)
        return step(self, *given)

    monkeypatch.setattr(type(backbone), "read_padded", held)
    monkeypatch.setattr(type(backbone), "read", held_too)
    with ThreadPoolExecutor(40) as pool:
        try:
            asked = [pool.submit(ana.post, CHAT[0], json=CHAT[1]) for _ in range(30)]
            refused = [next_done(asked) for _ in range(30 - (MOST))]
            assert {answer.status_code for answer in refused} == {429}
            other = pool.submit(ben.post, CHAT[0], json=CHAT[1])
        finally:
            opened.set()
        assert other.result().status_code == 200
        assert [one.result().status_code for one in asked] == [200] * (MOST)


def next_done(asked: list[Future[Response]]) -> Response:
    """The answer of one that has ended, which leaves the list."""
    done, _ = wait(asked, 300, FIRST_COMPLETED)
    one = done.pop()
    asked.remove(one)
    return one.result()
