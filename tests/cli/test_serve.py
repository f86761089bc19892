"""``precog serve``: what it refuses to start with, and how it starts and stops."""

import asyncio
import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from ended import Run

from precog.server.data_folder import LOCK_FILE
from precog.server.keys import KEYS_FILE, KeyRing
from precog.server.lock import locked
from precog.server.settings import VARIABLES


@pytest.fixture(autouse=True)
def _never_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gets past the checks in this process must not begin to serve."""

    def served(*_: object) -> None:
        raise AssertionError("it started")

    monkeypatch.setattr("precog.server.run.Scheduler", served)


def refused(run: Run, *arguments: object, status: int) -> str:
    ended = run("serve", *arguments)
    assert ended.status == status, ended.err
    assert ended.err.count("\n") == 1, ended.err
    return ended.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_that_others_reach_needs_keys(run: Run, tmp_path: Path, host: str) -> None:
    told = refused(run, "--host", host, "--port", 0, "--data", tmp_path, status=2)
    assert "needs keys" in told
    assert "precog keys create" in told


def test_keys_that_have_ended_are_none(run: Run, tmp_path: Path) -> None:
    KeyRing(tmp_path).create("Ana", ("read",), expires=1.0)
    assert "needs keys" in refused(run, "--host", "0.0.0.0", "--port", 0, "--data", tmp_path, status=2)


def test_keys_that_are_damaged_are_refused_on_any_address(run: Run, tmp_path: Path) -> None:
    (tmp_path / KEYS_FILE).write_text("[]")
    for host in ("127.0.0.1", "0.0.0.0"):
        assert "file of keys" in refused(run, "--host", host, "--port", 0, "--data", tmp_path, status=1)


def test_what_is_shared_must_be_a_corpus(run: Run, tmp_path: Path) -> None:
    told = refused(run, "--share", f"papers={tmp_path}", "--data", tmp_path / "data", status=1)
    assert f"papers={tmp_path} (--share, or shared" in told
    assert not (tmp_path / "data").exists()
    refused(run, "--share", "papers", "--data", tmp_path / "data", status=2)
    refused(run, "--share", f"../papers={tmp_path}", "--data", tmp_path / "data", status=1)


def test_a_root_must_be_a_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "none"):
        assert "--allow-root" in refused(run, "--allow-root", root, "--data", tmp_path / "data", status=2)


def test_a_port_that_is_taken_is_told_before_a_model_is_loaded(run: Run, tmp_path: Path) -> None:
    with taken() as port:
        told = refused(run, "--port", port, "--data", tmp_path / "data", "--model", "none-such", status=1)
    assert f"--port {port}" in told
    assert "another program" in told
    assert not (tmp_path / "data").exists()


def test_an_address_of_another_machine_is_told_as_that(run: Run, tmp_path: Path) -> None:
    KeyRing(tmp_path).create("Ana", ("read",))
    told = refused(run, "--host", "192.0.2.1", "--port", 0, "--data", tmp_path, status=1)
    assert "an address or a name of this machine" in told
    assert "another program" not in told


def test_a_variable_that_there_is_not_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECOG_SERVER_MAX_UPLOAD", "5000")
    told = refused(run, "--data", tmp_path / "data", status=2)
    assert "given: PRECOG_SERVER_MAX_UPLOAD" in told
    assert "did you mean PRECOG_SERVER_MAX_UPLOAD_BYTES?" in told


def test_help_names_every_setting(run: Run) -> None:
    words = run("serve", "--help").out.replace(",", " ").replace(".", " ").split()
    assert {variable.key for variable in VARIABLES} <= set(words)
    assert "[server]" in words


@contextmanager
def taken() -> Iterator[int]:
    async def listen() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        found.append(server.sockets[0].getsockname()[1])
        loops.append(asyncio.get_running_loop())
        ready.set()
        await stop.wait()
        server.close()

    found: list[int] = []
    loops: list[asyncio.AbstractEventLoop] = []
    ready, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    assert ready.wait(30)
    yield found[0]
    loops[0].call_soon_threadsafe(stop.set)
    thread.join(30)


def test_a_folder_of_data_that_cannot_be_one_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in refused(run, "--port", 0, "--data", tmp_path / "file" / "data", status=1)


def test_two_servers_do_not_share_a_folder(run: Run, tmp_path: Path) -> None:
    with locked(tmp_path / LOCK_FILE, "busy"):
        told = refused(run, "--port", 0, "--data", tmp_path, status=1)
    assert "another server uses this data folder" in told
    assert str(os.getpid()) in told


@pytest.mark.parametrize(
    "arguments",
    [["--port", "65536"], ["--max-body", "3"], ["--rate", "-1"], ["--log-format", "xml"], ["--log-level", "debug"],
     ["--allow-origin", "*"], ["--grace", "nan"], ["--max-streams", "0"], ["--host", ""]],
)  # fmt: skip
def test_values_out_of_range_are_told_by_their_option(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    assert arguments[0] in refused(run, *arguments, "--data", tmp_path / "data", status=2)
    assert not (tmp_path / "data").exists()


class Server:
    """A server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("serving at http://127.0.0.1:"), first
        self.url = first.split()[-1]

    def ask(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=60)

    def is_listening(self) -> bool:
        try:
            return self.ask("/healthz").status_code == 200
        except httpx.ConnectError:
            return False

    def half_a_request(self) -> http.client.HTTPConnection:
        """A request whose body, two bytes, has half come, and which the server works on."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        connection.putrequest("POST", "/v1/models")
        connection.putheader("Content-Length", "2")
        connection.putheader("Content-Type", "application/json")
        connection.endheaders()
        connection.send(b"{")
        assert self.ask("/healthz").status_code == 200  # what came before it has been read
        return connection

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> tuple[int, list[str]]:
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told.splitlines()


Starting = Callable[..., Server]


@pytest.fixture
def start(model: Path, tmp_path: Path) -> Iterator[Starting]:
    processes = []

    def started(*arguments: object) -> Server:
        command = [sys.executable, "-m", "precog", "serve", "--model", model, "--data", tmp_path / "data", "--port", 0]
        process = subprocess.Popen(
            [str(word) for word in (*command, *arguments)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        return Server(process)

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def test_it_starts_keeps_to_itself_and_stops(start: Starting, tmp_path: Path) -> None:
    server = start("--log-format", "json", "--allow-origin", "https://app.example.org")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert server.ask("/healthz").json()["status"] == "ok"
    assert server.ask("/v1/models").status_code == 200
    assert server.ask("/v1/models", Origin="https://evil.example").status_code == 403
    assert server.ask("/v1/models", Origin="https://app.example.org").status_code == 200
    assert server.ask("/v1/models", Host="evil.example").status_code == 403
    assert "server" not in server.ask("/v1/models/Zanzibar?x=Zanzibar").headers
    server.signal(signal.SIGTERM)
    status, told = server.ended()
    assert status == 0
    lines = [json.loads(line) for line in told]
    assert [line.get("status") for line in lines] == [200, 200, 403, 200, 403, 404, None, None]
    assert [line["event"] for line in lines[-2:]] == ["stopping", "stopped"]
    assert "Zanzibar" not in "".join(told)


def test_keys_made_while_it_runs_close_it_to_others(start: Starting, tmp_path: Path) -> None:
    server = start("--log-level", "warning")
    assert server.ask("/v1/models").status_code == 200
    _, text = KeyRing(tmp_path / "data").create("Ana", ("read",))
    pause = threading.Event()
    while server.ask("/v1/models").status_code == 200:  # at most the second after which it looks again
        pause.wait(0.05)
    assert server.ask("/v1/models", Authorization=f"Bearer {text}").status_code == 200
    assert server.ask("/v1/models").status_code == 401
    server.signal(signal.SIGINT)
    assert server.ended() == (0, [])


def test_what_has_begun_is_finished_before_it_stops(start: Starting) -> None:
    server = start("--log-format", "json")
    connection = server.half_a_request()
    server.signal(signal.SIGTERM)
    assert server.process.stderr is not None
    while json.loads(server.process.stderr.readline())["event"] != "stopping":
        pass
    while server.is_listening():
        pass
    connection.send(b"}")
    assert connection.getresponse().status == 405
    connection.close()
    assert server.ended()[0] == 0


def test_the_time_of_grace_is_bounded(start: Starting) -> None:
    server = start("--grace", "0.2", "--log-format", "json")
    connection = server.half_a_request()
    server.signal(signal.SIGTERM)
    status, told = server.ended()
    connection.close()
    assert status == 0
    assert "cancelled" in [json.loads(line)["event"] for line in told]
