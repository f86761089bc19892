"""Retriever, language model and memory, used as LlamaIndex uses them."""

import asyncio
import copy
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.query_engine import RetrieverQueryEngine

from precog.errors import CorpusError, UsageError
from precog.plugins.knowledge import Knowledge
from precog.plugins.llamaindex import PrecogLLM, PrecogMemory, PrecogRetriever


def test_a_retriever_gives_nodes_with_their_place(corpus: str) -> None:
    retriever = PrecogRetriever(corpus, similarity_top_k=1)
    [found] = retriever.retrieve("who built the lighthouse?")
    assert "Ada Quill" in found.text
    assert found.score == 1.0
    assert str(found.metadata["document"]).endswith("lighthouse.txt")
    [again] = asyncio.run(retriever.aretrieve("who built the lighthouse?"))
    assert again.text == found.text


def test_a_model_answers_prompts_and_chats(corpus: str) -> None:
    model = PrecogLLM(corpus=corpus, always_answer=True)
    answer = model.complete("Who built the lighthouse?")
    assert answer.raw["sources"][0]["text"].count(answer.text)
    said = [ChatMessage(content="Be brief.", role="system"), ChatMessage(content="Who built the lighthouse?")]
    assert model.chat(said).message.content == answer.text
    assert [one.message.content for one in model.stream_chat(said)][-1] == answer.text
    assert asyncio.run(model.acomplete("Who built the lighthouse?")).text == answer.text
    assert asyncio.run(model.achat(said)).message.role is MessageRole.ASSISTANT
    with pytest.raises(UsageError, match="no question"):
        model.chat([])


def test_a_model_speaks_piece_by_piece(corpus: str) -> None:
    model = PrecogLLM(corpus=corpus, free=True, max_tokens=6)
    *pieces, last = model.stream_complete("Who built the lighthouse?")
    assert len(pieces) > 2
    assert "".join(piece.delta or "" for piece in pieces) == last.text
    assert last.raw["sources"]
    assert model.complete("Who built the lighthouse?").text == last.text.strip()


def test_a_query_engine_of_both(corpus: str) -> None:
    engine = RetrieverQueryEngine.from_args(PrecogRetriever(corpus), llm=PrecogLLM(max_tokens=4))
    answer = engine.query("Who built the lighthouse?")
    assert str(answer)
    assert "Ada Quill" in answer.source_nodes[0].text


def test_a_memory_recalls_what_bears_on_the_message() -> None:
    memory = PrecogMemory.from_defaults(user="ana", recent=2, recalled=1)
    assert memory.get("Where?") == memory.get_all() == []
    memory.put(ChatMessage(content="Clara moved to Lisbon."))
    memory.put_messages([ChatMessage(content=f"I saw bird number {n}.") for n in range(3)])
    memory.put(ChatMessage(content="Lovely!", role=MessageRole.ASSISTANT))
    memory.put(ChatMessage(content=""))
    recalled, *newest = memory.get("Where does Clara live?")
    assert recalled.role is MessageRole.SYSTEM
    assert recalled.content == "Said before:\nuser: Clara moved to Lisbon."
    assert [(str(one.role.value), one.content) for one in newest] == [
        ("user", "I saw bird number 2."),
        ("assistant", "Lovely!"),
    ]
    assert len(PrecogMemory(user="ana").get_all()) == 5
    memory.set([ChatMessage(content="Ben likes tea.")])
    assert [one.content for one in memory.get_all()] == ["Ben likes tea."]
    memory.reset()
    assert memory.get_all() == []


def test_a_chat_engine_over_memory_and_model() -> None:
    memory = PrecogMemory.from_defaults(user="ana")
    engine = SimpleChatEngine.from_defaults(llm=PrecogLLM(max_tokens=4), memory=memory)
    answer = engine.chat("Clara moved to Lisbon.")
    assert str(answer)
    assert "Clara moved to Lisbon." in [message.content for message in memory.get_all()]


def test_others_go_on_while_a_model_answers(corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, retriever = PrecogLLM(corpus=corpus, always_answer=True), PrecogRetriever(corpus)
    gone_on = threading.Event()
    ask, passages, stream = Knowledge.ask, Knowledge.passages, Knowledge.stream

    def waiting(work: Callable[..., Any]) -> Callable[..., Any]:
        def waited(*given: Any, **named: Any) -> Any:
            assert gone_on.wait(300)
            return work(*given, **named)

        return waited

    for name, work in (("ask", ask), ("passages", passages), ("stream", stream)):
        monkeypatch.setattr(Knowledge, name, waiting(work))

    async def all_of(pieces: AsyncIterator[Any]) -> list[Any]:
        return [piece async for piece in pieces]

    async def asked(work: Coroutine[Any, Any, Any]) -> Any:
        gone_on.clear()
        answering = asyncio.create_task(work)
        await asyncio.sleep(0)
        gone_on.set()
        return await answering

    async def streamed(begun: Coroutine[Any, Any, Any]) -> list[Any]:
        return await all_of(await begun)

    async def work() -> None:
        question, said = "Who built the lighthouse?", [ChatMessage(content="Who built the lighthouse?")]
        answer = (await asked(model.acomplete(question))).text
        assert (await asked(model.achat(said))).message.content == answer
        assert (await asked(streamed(model.astream_complete(question))))[-1].text == answer
        assert (await asked(streamed(model.astream_chat(said))))[-1].message.content == answer
        assert await asked(retriever.aretrieve(question))

    asyncio.run(work())


def test_what_a_field_said_before_answers_nothing_and_copies_open_by_themselves(corpus: str) -> None:
    model = PrecogLLM(corpus=corpus, always_answer=True)
    answer = model.complete("Who built the lighthouse?").text
    retriever = PrecogRetriever(corpus, similarity_top_k=1)
    assert copy.deepcopy(model).complete("Who built the lighthouse?").text == answer
    assert pickle.loads(pickle.dumps(model)).complete("Who built the lighthouse?").text == answer
    assert copy.deepcopy(retriever).retrieve("lighthouse")[0].text == retriever.retrieve("lighthouse")[0].text
    model.corpus = corpus + "-none"
    with pytest.raises(CorpusError):
        model.complete("Who built the lighthouse?")
