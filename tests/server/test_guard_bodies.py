"""What comes in a request: its size, the time it takes, and JSON that is meant to break something."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import uvicorn
from fastapi import FastAPI, Request, UploadFile
from fastapi.testclient import TestClient

from precog.errors import InputError, LimitError
from precog.server import body as body_module
from precog.server import failure
from precog.server.body import Body, GoneError
from precog.server.exchange import Exchange
from precog.server.guard import Guard
from precog.server.json_body import MAX_DEPTH, check_json, is_json
from precog.server.refusal import SlowError
from precog.server.services import Services

JSON = {"Content-Type": "application/json"}


def reading_app(services: Services) -> FastAPI:
    """Says how much it was sent."""
    app = FastAPI()

    @app.post("/v1/corpora/{name}/documents")
    async def upload(file: UploadFile) -> int:
        return len(await file.read())

    @app.put("/v1/corpora/{name}/documents/{document}")
    async def streamed(request: Request) -> int:
        return sum([len(piece) async for piece in request.stream()])

    @app.post("/v1/echo")
    async def echo(request: Request) -> object:
        return await request.json()

    @app.post("/v1/sum")
    async def plain(request: Request) -> int:
        return len(await request.body())

    failure.install(app)
    app.add_middleware(Guard, services=services)
    app.add_middleware(Exchange)
    return app


@pytest.fixture
def small(services: Services) -> Services:
    return replace(services, settings=replace(services.settings, max_body_bytes=2000, max_upload_bytes=100_000))


@pytest.fixture
def reading(small: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(body_module, "_LINGER_SEC", 0.05)  # this client never says that its body has ended
    with TestClient(reading_app(small), base_url="http://127.0.0.1:8642", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def port(small: Services) -> Iterator[int]:
    config = uvicorn.Config(reading_app(small), host="127.0.0.1", port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(300)


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size // 1000):
        yield b"x" * 1000


def told(answer, status: int) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    assert set(found) == {"code", "message", "given", "expected", "hint", "type", "param"}
    return found


@pytest.mark.parametrize("path", ["/v1/sum", "/v1/echo", "/v1/nowhere"])
def test_a_body_that_says_it_is_too_large_is_refused(reading: TestClient, path: str) -> None:
    answer = reading.post(path, content=b" " * 2001, headers=JSON)
    assert told(answer, 413)["expected"] == "at most 2000 bytes"
    assert answer.headers["connection"] == "close"
    assert "x-request-id" in answer.headers


@pytest.mark.parametrize("path", ["/v1/sum", "/v1/echo"])
def test_a_body_in_pieces_is_counted_while_it_comes(reading: TestClient, path: str) -> None:
    assert reading.post("/v1/sum", content=pieces(2000)).json() == 2000
    assert told(reading.post(path, content=pieces(3000), headers=JSON), 413)["code"] == "limit"


def test_uploads_may_be_larger_and_are_counted_too(reading: TestClient) -> None:
    path = "/v1/corpora/papers/documents"
    assert reading.post(path, files={"file": b"x" * 50_000}).json() == 50_000
    assert told(reading.post(path, files={"file": b"x" * 100_001}), 413)["expected"] == "at most 100000 bytes"
    assert reading.put(f"{path}/a.txt", content=pieces(100_000)).json() == 100_000
    assert told(reading.put(f"{path}/a.txt", content=pieces(101_000)), 413)["expected"] == "at most 100000 bytes"
    assert told(reading.post(path, content=b" " * 2001, headers=JSON), 413)["expected"] == "at most 2000 bytes"


def test_a_client_that_sends_100_mb_reads_why_it_is_refused(port: int) -> None:
    """A client that sends everything first must find the answer, not a broken connection."""
    for headers in ({"Content-Length": str(100 << 20)}, {"Transfer-Encoding": "chunked"}):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        chunk = b"x" * (1 << 20)
        sent = (b"100000\r\n" + chunk + b"\r\n" if "Transfer-Encoding" in headers else chunk for _ in range(100))
        connection.putrequest("POST", "/v1/sum")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        for piece in sent:
            connection.send(piece)
        if "Transfer-Encoding" in headers:
            connection.send(b"0\r\n\r\n")
        answer = connection.getresponse()
        assert answer.status == 413
        assert answer.getheader("connection") == "close"
        assert json.loads(answer.read())["error"]["code"] == "limit"
        connection.close()


def test_a_client_that_waits_to_be_asked_for_its_body_is_refused_before(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.putrequest("POST", "/v1/sum")
    connection.putheader("Content-Length", str(100 << 20))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_body_that_does_not_come_ends_the_request(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "GRACE_SEC", 0.05)
    for path, kind in (("/v1/echo", "application/json"), ("/v1/sum", "text/plain")):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", "1000")
        connection.putheader("Content-Type", kind)
        connection.endheaders()
        connection.send(b"[")
        answer = connection.getresponse()
        assert answer.status == 408
        assert json.loads(answer.read())["error"]["code"] == "limit.slow"
        connection.close()


def test_a_body_may_take_the_longer_the_more_of_it_has_come() -> None:
    async def sending() -> list[str]:
        now = 0.0
        messages = [{"type": "http.request", "body": b"x" * 100_000, "more_body": True}] * 4

        async def receive():
            if not messages:
                await asyncio.sleep(3600)
            return messages.pop()

        found = []
        body = Body(receive, 1 << 20, lambda: now)
        for at in (0.0, 29.0, 41.0, 53.0, 85.0):
            now = at
            try:
                await body.receive()
                found.append("came")
            except SlowError:
                found.append("slow")
        return found

    assert asyncio.run(sending()) == ["came", "came", "came", "came", "slow"]


def test_a_client_that_goes_is_told_apart_from_a_body_that_ends() -> None:
    async def reading() -> None:
        async def receive():
            return {"type": "http.disconnect"}

        await Body(receive, 100).read()

    with pytest.raises(GoneError):
        asyncio.run(reading())


@pytest.mark.parametrize("length", ["101", "1" * 5000, "000101"])
def test_lengths_that_are_no_small_number_are_refused(length: str) -> None:
    with pytest.raises(LimitError):
        Body(lambda: None, 100).check_length(length)  # type: ignore[arg-type,return-value]  # nothing is received


BOMBS = {
    "deep arrays": b"[" * 1000 + b"]" * 1000,
    "deep objects": b'{"a":' * 300 + b"1" + b"}" * 300,
    "unclosed": b"[" * 1900,
    "a long integer": b'{"n": ' + b"9" * 1500 + b"}",
    "more than 64 bits": b'{"n": 18446744073709551616}',
    "less than 64 bits": b'{"n": -9223372036854775809}',
    "infinite": b'{"n": 1e999}',
    "NaN": b'{"n": NaN}',
    "Infinity": b"[-Infinity]",
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "half a character": b'{"a": "\\ud800"}',
    "half a key": b'{"\\udfff": 1}',
    "wrong order": b'["\\udc00\\ud800"]',
    "UTF-8 surrogate": b'["\xed\xa0\x80"]',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "the same key twice": b'{"a": 1, "a": 2}',
    "cut off": b'{"a": ',
    "two": b"{}{}",
    "a control character": b'["a\x01"]',
    "nothing": b" ",
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"])
def test_json_that_breaks_things_is_refused_before_anything_reads_it(reading: TestClient, name: str, kind: str) -> None:
    error = told(reading.post("/v1/echo", content=BOMBS[name], headers={"Content-Type": kind}), 400)
    assert error["code"] == "input"
    assert len(error["given"] or "") < 200


def test_json_that_is_whole_arrives_as_it_was(reading: TestClient) -> None:
    for sent in ({"a": [1, -(2**63), 2**63 - 1, 0.5, "\U0001f600 é \x00", None]}, [], "x", {"a": {"": [[]]}}):
        for text in (json.dumps(sent), json.dumps(sent, ensure_ascii=False)):
            assert reading.post("/v1/echo", content=text.encode(), headers=JSON).json() == sent


def test_depth_is_counted_and_brackets_in_texts_are_not() -> None:
    check_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    check_json(json.dumps("[" * 1000).encode())
    check_json(b"")
    with pytest.raises(InputError, match="nested too deeply"):
        check_json(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    with pytest.raises(InputError, match="nested too deeply"):
        check_json(b"[" * 2_000_000)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("application/json", True),
        ("application/vnd.api+json;x=y", True),
        ("application/x-ndjson", False),
        ("text/json", False),
        ("multipart/form-data; boundary=json", False),
        ("", False),
    ],
)
def test_what_is_json(kind: str, expected: bool) -> None:
    assert is_json(kind) == expected
