"""``precog mcp`` as a process: the official client, broken lines, signals; nothing but the protocol on stdout."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

COMMAND = [sys.executable, "-m", "precog", "mcp", "--user", "ana"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_round_trip_through_the_official_client(corpus: str, mode: str, home: Path) -> None:
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--corpus", corpus, "--allow-write"], env=dict(os.environ)
    )

    async def talk() -> list[CallToolResult]:
        async with Client(server, mode=mode) as client:
            calls: list[tuple[str, dict[str, Any]]] = [
                ("remember", {"text": "Clara moved to Lisbon."}),
                ("ask", {"question": "Where did Clara move?", "always_answer": True}),
                ("search", {"query": "who built the lighthouse?"}),
                ("forget", {"all": True}),
                ("recall", {"query": "Clara"}),
            ]
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    kept, answer, found, forgotten, recalled = [result.structured_content or {} for result in asyncio.run(talk())]
    assert kept["ids"] == [1]
    assert {entry["origin"] for entry in answer["evidence"]} == {"memory", "corpus"}
    assert "Ada Quill" in found["hits"][0]["text"]
    assert (forgotten["forgotten"], forgotten["hits"], forgotten["complete"]) == ([1], 0, True)
    assert recalled["evidence"] == []


class Raw:
    """A server and its two ends, as bytes."""

    def __init__(self, *arguments: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe)

    def send(self, line: bytes) -> dict[str, Any]:
        """What is answered to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def ask(self, number: int, method: str, **params: object) -> dict[str, Any]:
        return self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())

    def ended(self) -> tuple[int, bytes, bytes]:
        out, told = self.process.communicate(timeout=300)
        return self.process.returncode, out, told


@pytest.fixture
def raw(corpus: str) -> Iterator[Raw]:
    made = Raw("--corpus", corpus)
    yield made
    made.process.kill()
    made.process.communicate()


def test_lines_that_cannot_be_read_are_answered_and_the_next_one_is_served(raw: Raw) -> None:
    client = {"name": "raw", "version": "1"}
    hello = raw.ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    assert hello["result"]["serverInfo"]["name"] == "precog"
    half = rb'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search","arguments":{"query":"\ud800"}}}'
    assert raw.send(half)["error"]["code"] == -32700
    assert raw.send(half)["id"] == 2
    for line in (b"Zanzibar", b"\xff", b'{"id": true', b"[" * 5000):
        refused = raw.send(line)
        assert refused["id"] is None
        assert "Zanzibar" not in refused["error"]["message"]
    assert "at most" in raw.send(b'"' + b"x" * (5 << 20) + b'"')["error"]["message"]
    long = raw.ask(7, "tools/call", name="search", arguments={"query": "x" * (5 << 20)})
    assert (long["id"], long["error"]["code"]) == (7, -32600)
    for line, number in (
        (b'{"id":8,"method":"ping"}', 8),
        (b'{"jsonrpc":"2.0","id":9}', 9),
        (b'{"jsonrpc":"2.0","id":"ten","method":5}', "ten"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
        (b'[{"jsonrpc":"2.0","id":11,"method":"ping"}]', None),
        (b"5", None),
    ):
        refused = raw.send(line)
        assert (refused["id"], refused["error"]["code"]) == (number, -32600)
    assert "no such tool" in raw.ask(3, "tools/call", name="Timbuktu", arguments={})["error"]["message"]
    found = raw.ask(4, "tools/call", name="search", arguments={"query": "lighthouse"})
    assert "Ada Quill" in found["result"]["content"][0]["text"]
    assert raw.ended() == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(raw: Raw, number: int) -> None:
    assert raw.ask(1, "ping")["result"] == {}
    raw.process.send_signal(number)
    assert raw.process.wait(300) == 0  # with standard input still open
    assert raw.ended() == (0, b"", b"")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--user", " "], 2, "whose memory?"),
        (["--port", "1"], 2, "no address"),
        (["--http", "--host", "0.0.0.0", "--port", "0"], 2, "needs keys"),
        (["--model", "", "--user", "ana"], 2, "model"),
    ],
)
def test_what_cannot_be_started_is_told_in_a_line(arguments: list[str], status: int, told: str) -> None:
    ended = subprocess.run([*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (status, b"")
    assert ended.stderr.count(b"\n") == 1
    assert told in ended.stderr.decode()


@pytest.mark.parametrize(("package", "arguments"), [("mcp", []), ("fastapi", ["--http"])])
def test_without_a_package_it_says_what_to_install(package: str, arguments: list[str]) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None; from precog.cli.main import main; "
        f"main(['mcp', '--user', 'ana', *{arguments}])"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert ended.returncode == 2
    assert ended.stderr.decode().rstrip().endswith("pip install 'precog-ssm[mcp]'")
