"""Two servers of the Model Context Protocol that may both change one memory, in one process and in two."""

import asyncio
import os
import shlex
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import TextContent

from precog.memory.opened import OpenMemory
from precog.memory.place import memory_folder
from precog.plugins.knowledge import Knowledge
from precog.plugins.mcp.protocol import make_server
from precog.store.memory import MemoryStore


async def call(client: Client, name: str, **given: object) -> dict[str, Any]:
    result = await client.call_tool(name, given)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def evidence(client: Client, name: str, **given: object) -> list[str]:
    return [entry["text"] for entry in (await call(client, name, top_k=50, **given))["evidence"]]


async def listed(client: Client) -> list[tuple[int, str]]:
    return [(row["id"], row["text"]) for row in (await call(client, "list", limit=1000))["deposits"]]


async def remember_in_turn(writer: Client, reader: Client, who: str, each: int) -> list[tuple[int, str]]:
    """Deposits by one, each found by the other at once."""
    kept = []
    for number in range(each):
        text = f"{who} saw bird number {number} in the garden."
        [deposit] = (await call(writer, "remember", text=text))["ids"]
        assert text in await evidence(reader, "recall", query=text)
        kept.append((deposit, text))
    return kept


async def share_a_memory(one: Client, other: Client, each: int) -> None:
    """Nothing is lost, doubled, or there again, whoever of the two deposits, asks and forgets."""
    same = {"text": "Clara moved to Lisbon.", "time": "2026-05-04T09:00:00Z"}
    begun = await asyncio.gather(*(call(client, "remember", **same) for client in (one, other, one, other)))
    assert sorted(done["duplicates"] for done in begun) == [0, 1, 1, 1]
    kept = await asyncio.gather(remember_in_turn(one, other, "Ana", each), remember_in_turn(other, one, "Ben", each))
    expected = sorted([(1, same["text"]), *kept[0], *kept[1]])
    assert len({deposit for deposit, _ in expected}) == 1 + 2 * each
    assert await listed(one) == await listed(other) == expected
    question = {"question": "Who saw a bird?", "always_answer": True}
    await asyncio.gather(evidence(one, "ask", **question), evidence(other, "ask", **question))  # sessions are open
    for forgetting, reading, mine in ((one, other, kept[0]), (other, one, kept[1])):
        for deposit, text in mine[::2]:
            done = await call(forgetting, "forget", ids=[deposit])
            assert (done["forgotten"], done["hits"], done["complete"]) == ([deposit], 0, True)
            assert text not in await evidence(reading, "recall", query=text)
            assert text not in await evidence(reading, "ask", question=text, always_answer=True)
    await asyncio.gather(
        *(call(one, "forget", ids=[deposit]) for deposit, _ in kept[1][1::2]),
        *(evidence(other, "ask", **question) for _ in range(2)),
        *(call(other, "remember", text=f"Dora was at place number {number}.") for number in range(2)),
    )
    left = await listed(one)
    assert left == await listed(other)
    assert [row for row in left if "bird" in row[1]] == kept[0][1::2]
    assert sum("Dora" in text for _, text in left) == 2


def test_two_servers_in_one_process_share_a_memory() -> None:
    async def work() -> None:
        with Knowledge(user="ana") as mine, Knowledge(user="ana") as yours:
            servers = [make_server(lambda k=k: k, has_corpus=False, allow_write=True) for k in (mine, yours)]
            async with Client(servers[0]) as one, Client(servers[1]) as other:
                await share_a_memory(one, other, 2)

    asyncio.run(work())


def test_two_processes_share_a_memory_and_one_that_is_killed_takes_nothing_along(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    command = [sys.executable, "-m", "precog", "mcp", "--user", "ana", "--allow-write"]
    line = f"echo $$ > {shlex.quote(str(number))}; exec {shlex.join(command)}"
    environment = dict(os.environ)
    acknowledged: list[tuple[int, str]] = []

    async def deposit_without_end(client: Client, enough: asyncio.Event) -> None:
        while True:
            text = f"The killed one says {len(acknowledged)}."
            acknowledged.append(((await call(client, "remember", text=text))["ids"][0], text))
            if len(acknowledged) == 3:
                enough.set()

    async def work() -> None:
        servers = [
            StdioServerParameters(command=command[0], args=command[1:], env=environment),
            StdioServerParameters(command="sh", args=["-c", line], env=environment),
        ]
        async with Client(servers[0]) as one:
            async with Client(servers[1]) as other:
                await share_a_memory(one, other, 4)
                enough = asyncio.Event()
                depositing = asyncio.create_task(deposit_without_end(other, enough))
                await asyncio.wait_for(enough.wait(), 60)
                os.kill(int(number.read_text()), signal.SIGKILL)
                with pytest.raises(MCPError, match="closed"):
                    await asyncio.wait_for(depositing, 60)
            said = [row for row in await listed(one) if "killed" in row[1]]
            assert said[: len(acknowledged)] == acknowledged
            assert len(said) <= len(acknowledged) + 1  # one that was kept, and not told
            [last] = (await call(one, "remember", text="Greta lives in Porto."))["ids"]
            assert last not in [deposit for deposit, _ in said]
            done = await call(one, "forget", ids=[deposit for deposit, _ in said])
            assert (done["hits"], done["complete"]) == (0, True)
            assert not [text for text in await evidence(one, "recall", query="The killed one") if "killed" in text]

    asyncio.run(work())


def test_a_memory_that_is_busy_is_told_in_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = partial(OpenMemory.open, wait_sec=0.0)
    opened = []

    def opens(*given: Any, **named: Any) -> OpenMemory:
        opened.append(named)
        return opening(*given, **named)

    async def work() -> None:
        with Knowledge(user="ana") as knowledge:
            server = make_server(lambda: knowledge, has_corpus=False, allow_write=True)
            async with Client(server) as client:
                await call(client, "remember", text="Clara moved to Lisbon.")
                monkeypatch.setattr(OpenMemory, "open", opens)
                with MemoryStore.open(memory_folder(home, "ana"), write=True):
                    for name, given in (("remember", {"text": "Ben stayed."}), ("forget", {"ids": [1]})):
                        opened.clear()
                        result = await client.call_tool(name, given)
                        [content] = result.content
                        assert isinstance(content, TextContent)
                        assert content.text == (
                            f"another process is writing to this memory; given: process {os.getpid()}; "
                            "wait until it has finished, then call the tool again"
                        )
                        assert result.is_error
                        assert len(opened) == 1  # it has waited once
                    assert await evidence(client, "recall", query="Clara") == ["Clara moved to Lisbon."]
                assert (await call(client, "remember", text="Ben stayed."))["ids"] == [2]

    asyncio.run(work())
