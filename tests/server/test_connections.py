"""Connections of clients that ask nothing, say half of it, or read nothing of what they are told."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from precog.server import connection as connection_module
from precog.server.connection import most_connections, protocol

ASKED = b"GET /%b HTTP/1.1\r\nHost: here\r\n\r\n"


class Application:
    """Answers at once; with more than any buffer holds under ``/much``; when it is let under ``/late``."""

    def __init__(self) -> None:
        self.has_begun, self.has_gone, self.may_end = threading.Event(), threading.Event(), threading.Event()

    async def __call__(self, scope, receive, send) -> None:
        self.has_begun.set()
        if scope["path"] == "/late":
            await asyncio.to_thread(self.may_end.wait, 300)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", scope["path"].encode())]})
        if scope["path"] == "/much":
            for _ in range(100):
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
            message = await receive()
            while message["type"] != "http.disconnect":
                message = await receive()
            self.has_gone.set()
        await send({"type": "http.response.body", "body": b"all"})


@contextlib.contextmanager
def listening(application: Application, most: int = 100) -> Iterator[int]:
    with serving(application, most) as server:
        yield port_of(server)


@contextlib.contextmanager
def serving(application: Application, most: int = 100) -> Iterator[uvicorn.Server]:
    config = uvicorn.Config(
        application,  # type: ignore[arg-type]  # an ASGI application of its own kind
        port=0, http=protocol(most), lifespan="off", ws="none", log_level="critical", timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.02)
        yield server
    finally:
        application.may_end.set()
        server.should_exit = True
        thread.join(300)


def port_of(server: uvicorn.Server) -> int:
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port


@contextlib.contextmanager
def standing_still(server: uvicorn.Server) -> Iterator[None]:
    """What comes while the block runs, the server sees at its end, all at once."""
    go_on = threading.Event()
    server.servers[0].get_loop().call_soon_threadsafe(go_on.wait, 300)
    try:
        yield
    finally:
        go_on.set()


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
        yield client


def said(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := client.recv(65536):
            found += data
    return found


def answered(port: int) -> bool:
    with connected(port) as client:
        client.sendall(ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % b"now")
        return said(client).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("begun", [b"", b"GET /now HT", ASKED[:-2] % b"now", ASKED % b"now" + b"G"])
def test_a_request_that_does_not_come_ends_the_connection(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "HEAD_SEC", 0.1)
    with listening(Application()) as port, connected(port) as client:
        client.sendall(begun)
        said(client)  # or it times out


def test_what_is_worked_on_has_all_the_time_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "HEAD_SEC", 0.1)
    application = Application()
    with serving(application) as server, contextlib.ExitStack() as stack:
        with standing_still(server):  # a client is not held to a time that the machine may take from it
            client = stack.enter_context(connected(port_of(server)))
            client.sendall(ASKED % b"late")
        assert application.has_begun.wait(300)
        with connected(port_of(server)) as other:
            said(other)  # whoever asks nothing was closed meanwhile
        application.may_end.set()
        assert b"x-path: /late" in said(client)


def test_a_client_that_reads_nothing_does_not_hold_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "READ_SEC", 0.1)
    application = Application()
    with listening(application) as port, connected(port) as client:
        client.sendall(ASKED % b"much")
        assert application.has_gone.wait(300)


def test_many_that_ask_nothing_keep_nobody_out() -> None:
    with listening(Application(), most=5) as port, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(port)) for _ in range(20)]
        assert answered(port)
        for client in silent[:14]:
            assert said(client) == b""  # the longest idle were closed


def test_none_that_is_worked_on_is_closed_for_another() -> None:
    application = Application()
    with listening(application, most=1) as port, connected(port) as client:
        client.sendall(ASKED % b"late")
        assert application.has_begun.wait(300)
        with connected(port) as other:
            assert said(other) == b""
        application.may_end.set()
        assert b"x-path: /late" in client.recv(65536)


@pytest.mark.parametrize(
    "nonsense", [b"\x16\x03\x01\x00\xa5\r\n\r\n", b"GET / HTTP/1.1\r\nA : b\r\n\r\n", b"a" * 200_000]
)
def test_what_is_no_request_is_told_so_in_the_shape_of_all_errors(nonsense: bytes) -> None:
    with listening(Application()) as port, connected(port) as client:
        client.sendall(nonsense)
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        assert json.loads(body)["error"]["message"] == "this is no HTTP request; expected: HTTP/1.1"


def test_half_of_the_open_files_are_for_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(connection_module.resource, "getrlimit", lambda _: (256, 1000))
    monkeypatch.setattr(connection_module.resource, "setrlimit", lambda _, limits: told.append(limits))
    assert most_connections() == 500
    assert told == [(1000, 1000)]
    monkeypatch.setattr(connection_module.resource, "getrlimit", lambda _: (256, 256))
    assert most_connections() == 128
    assert len(told) == 1
