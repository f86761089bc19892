"""The log: a line for each request, and nothing in it that anybody said."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from served import client_of, listening
from starlette.types import Message, Receive, Scope, Send

from precog.server import log
from precog.server.exchange import Exchange
from precog.server.keys import KeyRing
from precog.server.services import Services

SECRETS = ("Zanzibar", "Ana Quill", "pk-", "evil.example")


@pytest.fixture(params=["text", "json"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers, root.level, log.LOG.level, threading.excepthook
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    log.set_up(request.param, "info")
    yield stream
    root.handlers = before[0]
    root.setLevel(before[1])
    log.LOG.setLevel(before[2])
    threading.excepthook = before[3]
    logging.captureWarnings(False)


def test_a_request_is_a_line_without_anything_that_was_said(services: Services, written: io.StringIO) -> None:
    key, text = KeyRing(services.settings.data).create("Ana Quill", ("read",))
    with client_of(services, **{"Authorization": f"Bearer {text}", "Referer": "https://evil.example"}) as client:
        answers = [
            client.get("/v1/models/Zanzibar?q=Zanzibar"),
            client.get("/Zanzibar"),
            client.post("/v1/models", json={"Zanzibar": "Zanzibar"}),
            client.post("/v1/models", content=b'{"Zanzibar', headers={"Content-Type": "application/json"}),
            client.request("ZANZIBAR", "/v1/models"),
            client.get("/v1/models", headers={"Authorization": f"Bearer {text}Zanzibar"}),
        ]
    lines = written.getvalue()
    assert not [secret for secret in SECRETS if secret.lower() in lines.lower()]
    assert lines.count("\n") == len(answers)
    assert lines.count(key.id) == len(answers) - 1
    for answer in answers:
        assert answer.headers["x-request-id"] in lines
    assert "/v1/models/{name:path}" in lines
    assert "OTHER" in lines


def test_json_lines_have_every_field(services: Services, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(log.JsonLines())
    monkeypatch.setattr(log.LOG, "handlers", [handler])
    monkeypatch.setattr(log.LOG, "level", logging.INFO)
    client.get("/v1/models")
    client.post("/v1/models", content=b"{}", headers={"Content-Type": "application/json"})
    read, posted = map(json.loads, stream.getvalue().splitlines())
    assert {**read, "time": "", "ms": 0, "request": "", "bytes_out": 0} == {
        "time": "", "level": "info", "event": "request", "method": "GET", "route": "/v1/models", "status": 200,
        "bytes_in": 0, "bytes_out": 0, "key": "", "request": "", "ms": 0,
    }  # fmt: skip
    assert read["bytes_out"] > 50
    assert read["ms"] >= 0
    assert (posted["status"], posted["bytes_in"]) == (405, 2)


def test_a_bug_is_told_by_its_kind_and_places(services: Services, written: io.StringIO) -> None:
    with client_of(services) as client:

        @client.app.get("/v1/broken")
        def broken() -> None:
            secret = "Zanzibar"
            try:
                int(secret)
            except ValueError as error:
                raise KeyError(secret) from error

        answer = client.get("/v1/broken")
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "bug"
        assert "x-request-id" in answer.headers
    lines = written.getvalue()
    assert "Zanzibar" not in lines + answer.text
    assert "KeyError" in lines
    assert "ValueError" in lines
    assert "in broken" in lines


def test_a_bug_in_the_middle_of_an_answer_cuts_it_off(services: Services, written: io.StringIO) -> None:
    import http.client

    from fastapi.responses import StreamingResponse

    with client_of(services) as client:
        app = client.app

    @app.get("/v1/half")
    def half() -> StreamingResponse:
        def pieces() -> Iterator[bytes]:
            yield b"x"
            raise KeyError("Zanzibar")

        return StreamingResponse(pieces())

    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, access_log=False, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.02)
    connection = http.client.HTTPConnection("127.0.0.1", server.servers[0].sockets[0].getsockname()[1], timeout=300)
    connection.request("GET", "/v1/half")
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()
    connection.close()
    server.should_exit = True
    thread.join(300)
    assert "Zanzibar" not in written.getvalue()
    assert "KeyError" in written.getvalue()


def test_lines_of_libraries_are_cut_down(written: io.StringIO) -> None:
    logging.getLogger("some.parser").warning("cannot read %r", "Zanzibar")
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: ValueError('Zanzibar')")
    thread = threading.Thread(target=lambda: int("Zanzibar"))
    thread.start()
    thread.join()
    lines = written.getvalue()
    assert "Zanzibar" not in lines
    assert "some.parser" in lines
    assert "never retrieved" in lines
    assert "ValueError" in lines


def test_what_is_no_http_is_told_without_its_bytes(services: Services, written: io.StringIO) -> None:
    import http.client

    with listening(services) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)
        connection.connect()
        connection.sock.sendall(b"Zanzibar\0\r\n\r\n")
        assert b"400" in connection.sock.recv(100)
        connection.close()
    assert "Zanzibar" not in written.getvalue()


@pytest.mark.parametrize("is_gone", [True, False])
def test_whoever_goes_away_in_the_middle_has_a_status_of_their_own(written: io.StringIO, is_gone: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": is_gone})
        await receive()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pass

    asyncio.run(Exchange(app)({"type": "http", "method": "GET", "path": "/v1/x"}, receive, send))
    assert ("499" if is_gone else "200") in written.getvalue().replace("status=", '"status": ').split('"status": ')[1]
