"""Calls of the Model Context Protocol that their client cancels, by the official client in this process."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from held import Held
from mcp import Client
from mcp_types import CallToolResult

from precog.backbones.tenns.backbone import TennsBackbone
from precog.encoders.onnx_encoder import OnnxEncoder
from precog.errors import CancelledError, PrecogError
from precog.index import HybridIndex
from precog.memory.place import memory_folder
from precog.memory.selection import Selection
from precog.memory.utterance import Utterance
from precog.plugins.knowledge import Knowledge
from precog.plugins.mcp.protocol import make_server
from precog.store.memory import MemoryStore

SAID = Utterance("Clara moved to Lisbon.", None)


@pytest.fixture
def knowledge(corpus: str) -> Iterator[Knowledge]:
    with Knowledge(corpus, "ana") as made:
        made.remember([SAID])
        yield made


def call(knowledge: Knowledge, name: str, **given: object) -> dict[str, Any]:
    async def asked() -> CallToolResult:
        async with Client(_server(knowledge)) as client:
            return await client.call_tool(name, given)

    return _told(asyncio.run(asked()))


def cancelled(knowledge: Knowledge, begun: threading.Event, name: str, **given: object) -> dict[str, Any]:
    """What `list` gives right after a call that was cancelled when it had begun."""

    async def asked() -> CallToolResult:
        async with Client(_server(knowledge)) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, name, given)
                assert await anyio.to_thread.run_sync(begun.wait, 60)
                tasks.cancel_scope.cancel()
            return await client.call_tool("list", {})

    return _told(asyncio.run(asked()))


def _server(knowledge: Knowledge) -> Any:
    return make_server(lambda: knowledge, has_corpus=knowledge.corpus is not None, allow_write=True)


def _told(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("top_k", [1, 3])
def test_an_ask_stops_the_model_at_its_next_token(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, free: bool, top_k: int
) -> None:
    asked = {"question": "Where did Clara move?", "always_answer": True, "free": free, "top_k": top_k}
    before = call(knowledge, "ask", **asked)
    model = Held(monkeypatch, knowledge, "ask", TennsBackbone, "step")
    assert cancelled(knowledge, model.begun, "ask", **asked)["total"] == 1
    assert (model.was_left, model.num_calls) == (True, 1)
    after = call(knowledge, "ask", **asked)
    assert model.num_calls > 2  # the answer is long enough to be stopped
    assert after["text"] == before["text"]


def test_an_answer_from_documents_alone_stops_too(corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Knowledge(corpus) as knowledge:
        model = Held(monkeypatch, knowledge, "ask", TennsBackbone, "step")
        stopped = threading.Event()
        ended: list[BaseException] = []

        def work() -> None:
            try:
                knowledge.ask("Who built the lighthouse?", stopped=stopped)
            except CancelledError as error:
                ended.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert model.begun.wait(60)
        stopped.set()
        thread.join(60)
        assert (len(ended), model.was_left, model.num_calls) == (1, True, 1)
        assert knowledge.ask("Who built the lighthouse?", stopped=threading.Event()).passages


@pytest.mark.parametrize(("name", "given"), [("search", {"query": "lighthouse"}), ("recall", {"query": "Clara"})])
def test_a_search_ends_before_its_next_stage(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, object]
) -> None:
    before = call(knowledge, name, **given)
    searches: list[object] = []
    search = HybridIndex.search

    def counted(*given: Any, **named: Any) -> Any:
        searches.append(given)
        return search(*given, **named)

    monkeypatch.setattr(HybridIndex, "search", counted)
    encoding = Held(monkeypatch, knowledge, name, OnnxEncoder, "encode_query")
    assert cancelled(knowledge, encoding.begun, name, **given)["total"] == 1
    assert encoding.was_left
    assert not searches
    after = call(knowledge, name, **given)
    assert len(searches) == 1
    assert {**after, "timings_sec": None} == {**before, "timings_sec": None}


def test_a_forget_that_has_begun_is_finished(knowledge: Knowledge, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scrubbing = Held(monkeypatch, knowledge, "forget", MemoryStore, "scrub")
    assert cancelled(knowledge, scrubbing.begun, "forget", ids=[1])["total"] == 0
    assert (scrubbing.was_left, scrubbing.num_calls) == (True, 1)
    with MemoryStore.open(memory_folder(home, "ana")) as store:
        assert not store.unfinished()


@pytest.mark.parametrize(("name", "given"), [("remember", {"text": "Ben stayed."}), ("forget", {"ids": [1]})])
def test_a_change_that_waits_for_another_writer_is_not_begun(
    knowledge: Knowledge, home: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, object]
) -> None:
    begun, ends = threading.Event(), []
    change = getattr(knowledge, name)

    def changing(*given: Any, **named: Any) -> Any:
        try:
            return change(*given, **named)
        except PrecogError as error:
            ends.append(type(error))
            raise

    monkeypatch.setattr(knowledge, name, changing)
    with MemoryStore.open(memory_folder(home, "ana"), write=True):
        opened = MemoryStore.open

        def opening(*given: Any, **named: Any) -> Any:
            if named.get("write"):
                begun.set()
            return opened(*given, **named)

        monkeypatch.setattr(MemoryStore, "open", opening)
        assert cancelled(knowledge, begun, name, **given)["total"] == 1  # while the other one still writes
    assert ends == [CancelledError]
    assert [row["text"] for row in call(knowledge, "list")["deposits"]] == [SAID.text]


def test_what_was_stopped_before_it_began_does_nothing(knowledge: Knowledge) -> None:
    stopped = threading.Event()
    stopped.set()
    for work in (
        lambda: knowledge.ask("Who?", stopped=stopped),
        lambda: knowledge.search("lighthouse", 1, stopped=stopped),
        lambda: knowledge.recall("Clara", 1, stopped=stopped),
        lambda: knowledge.remember([Utterance("Ben stayed.", None)], stopped=stopped),
        lambda: knowledge.forget(Selection(everything=True), stopped=stopped),
    ):
        with pytest.raises(CancelledError):
            work()
    assert [turn.text for turn in knowledge.turns(None)] == [SAID.text]
