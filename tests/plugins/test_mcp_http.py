"""The Model Context Protocol over HTTP, on a port: the official client, keys, hosts and origins."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
import uvicorn
from held import Held
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import CallToolResult
from served import settings_in

from precog.backbones.tenns.backbone import TennsBackbone
from precog.plugins.knowledge import Knowledge
from precog.plugins.mcp.http import Guarded, check_scope, guarded_app
from precog.plugins.mcp.protocol import PATH, make_server
from precog.server.keys import KeyRing

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPTS = {"Accept": "application/json, text/event-stream"}


@contextlib.contextmanager
def listening(corpus: str, folder: Path, knowledge: Knowledge | None = None, **changed: object) -> Iterator[str]:
    guarded = Guarded(replace(settings_in(folder), **changed))  # type: ignore[arg-type]
    with knowledge or Knowledge(corpus, "ana") as knowledge:
        made = make_server(lambda: knowledge, has_corpus=True, allow_write=True, check=check_scope)
        app = guarded_app(made, guarded, "ana")
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                thread.join(0.02)
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PATH}"
        finally:
            server.should_exit = True
            thread.join(300)


def call(url: str, name: str, key: str | None = None, mode: str = "auto", **arguments: object) -> CallToolResult:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    async def asked() -> CallToolResult:
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return await client.call_tool(name, arguments)

    return asyncio.run(asked())


def told(result: CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None
    return result.structured_content


def status(url: str, **headers: str) -> int:
    return httpx.post(url, json=PING, headers={**ACCEPTS, **headers}, timeout=300).status_code


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_round_trip_without_keys_on_this_machine(corpus: str, tmp_path: Path, mode: str) -> None:
    with listening(corpus, tmp_path) as url:
        assert told(call(url, "remember", mode=mode, text="Clara moved to Lisbon."))["ids"] == [1]
        answer = call(url, "ask", mode=mode, question="Where did Clara move?", always_answer=True)
        assert {entry["origin"] for entry in told(answer)["evidence"]} == {"memory", "corpus"}
        assert told(call(url, "forget", mode=mode, ids=[1]))["complete"] is True
        assert call(url, "ask", mode=mode, question="a\0b").is_error


def test_pages_of_others_and_other_names_are_refused(corpus: str, tmp_path: Path) -> None:
    with listening(corpus, tmp_path) as url:
        assert status(url) == 200
        assert status(url, Host="evil.example") == 403
        assert status(url, Origin="https://evil.example") == 403
        assert status(url, **{"Sec-Fetch-Site": "cross-site"}) == 403
        base = url.removesuffix(PATH)
        for path in ("/healthz", "/", "/mcp/x", "/v1/models"):
            assert httpx.post(base + path, json=PING, headers=ACCEPTS).status_code == 404
        half, as_json = rb'{"jsonrpc":"2.0","id":1,"method":"\ud800"}', {**ACCEPTS, "Content-Type": "application/json"}
        assert httpx.post(url, content=half, headers=as_json).status_code == 400
        for method in ("GET", "DELETE"):  # no stream is held open, by which nothing would ever come
            answer = httpx.request(method, url, headers=ACCEPTS, timeout=300)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_with_keys_only_those_of_the_user_come_in_and_scopes_hold(corpus: str, tmp_path: Path) -> None:
    ring = KeyRing(settings_in(tmp_path).data)
    keys = {
        name: ring.create(user, scopes)[1]
        for name, user, scopes in (
            ("reader", "ana", ("read",)),
            ("writer", "ana", ("read", "write")),
            ("other", "ben", ("read", "write")),
            ("admin", "ben", ("read", "write", "admin")),
        )
    }
    with listening(corpus, tmp_path) as url:
        assert status(url) == 401
        assert status(url, Authorization="Bearer pk-0-0") == 401
        expected = {"reader": 200, "writer": 200, "other": 403, "admin": 200}
        assert {name: status(url, Authorization=f"Bearer {key}") for name, key in keys.items()} == expected
        for mode in ("auto", "legacy"):
            refused = call(url, "remember", keys["reader"], mode, text="Clara moved to Lisbon.")
            assert told(refused)["error"]["code"] == "access"
            assert not call(url, "search", keys["reader"], mode, query="lighthouse").is_error
        assert not call(url, "remember", keys["writer"], text="Clara moved to Lisbon.").is_error
        assert told(call(url, "recall", keys["admin"], query="Clara"))["evidence"]


ASK = {"question": "Who built the lighthouse?", "always_answer": True}


def test_an_ask_that_is_cancelled_stops_the_model(corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knowledge = Knowledge(corpus, "ana")
    with listening(corpus, tmp_path, knowledge) as url:
        model = Held(monkeypatch, knowledge, "ask", TennsBackbone, "step")

        async def left() -> None:
            async with (
                create_mcp_http_client() as http,
                Client(streamable_http_client(url, http_client=http)) as client,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(client.call_tool, "ask", ASK)
                assert await anyio.to_thread.run_sync(model.begun.wait, 60)
                tasks.cancel_scope.cancel()

        asyncio.run(left())
        assert "Ada Quill" in json.dumps(told(call(url, "search", query="lighthouse")))
        assert (model.was_left, model.num_calls) == (True, 1)
        assert told(call(url, "ask", **ASK))["text"]


def test_an_ask_whose_client_has_gone_stops_the_model_whatever_is_spoken(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge = Knowledge(corpus, "ana")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": ASK}}
    with listening(corpus, tmp_path, knowledge) as url:
        model = Held(monkeypatch, knowledge, "ask", TennsBackbone, "step")

        async def left() -> None:
            async with httpx.AsyncClient() as http, anyio.create_task_group() as tasks:
                tasks.start_soon(partial(http.post, url, json=message, headers=ACCEPTS, timeout=60))
                assert await anyio.to_thread.run_sync(model.begun.wait, 60)
                tasks.cancel_scope.cancel()

        asyncio.run(left())
        assert "Ada Quill" in json.dumps(told(call(url, "search", query="lighthouse")))
        assert (model.was_left, model.num_calls) == (True, 1)
        found = httpx.post(url, json=message, headers=ACCEPTS, timeout=60).json()
        assert found["result"]["structuredContent"]["text"]


def test_the_command_listens_logs_no_words_and_stops(corpus: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "precog", "mcp", "--user", "ana", "--corpus", corpus, "--http", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("serving at http://127.0.0.1:"), first
        url = first.split()[-1]
        assert "Ada Quill" in json.dumps(told(call(url, "search", query="lighthouse Zanzibar")))
        assert call(url, "search", query="").is_error
        process.send_signal(signal.SIGINT)
        out, log = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "")
    assert "stopping" in log
    assert "Zanzibar" not in log
    assert "ana" not in log.split()
