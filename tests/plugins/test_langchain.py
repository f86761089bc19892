"""Retriever, chat model and chat history, used as LangChain uses them."""

import asyncio
import copy
import pickle
from pathlib import Path

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from precog.errors import CorpusError, UsageError
from precog.plugins.langchain import ChatPrecog, PrecogChatMessageHistory, PrecogRetriever


def test_a_retriever_gives_documents_with_their_place(corpus: str) -> None:
    retriever = PrecogRetriever(corpus=corpus, k=1)
    [found] = retriever.invoke("who built the lighthouse?")
    assert "Ada Quill" in found.page_content
    assert found.metadata["source"].endswith("lighthouse.txt")
    assert found.metadata["span"] == [0, len(found.page_content)]
    assert [one.page_content for one in asyncio.run(retriever.ainvoke("lighthouse"))] == [found.page_content]
    assert retriever.batch(["lighthouse", "whale oil"])[1] == retriever.invoke("whale oil")


def test_a_retriever_of_a_memory_finds_what_was_said() -> None:
    history = PrecogChatMessageHistory("ana")
    retriever = PrecogRetriever(user="ana", k=1)
    assert retriever.invoke("Clara") == []
    history.add_user_message("Clara moved to Lisbon.")
    assert retriever.invoke("Clara")[0].page_content == "Clara moved to Lisbon."


def test_a_chat_model_answers_the_last_message_and_cites(corpus: str) -> None:
    model = ChatPrecog(corpus=corpus, always_answer=True)
    answer = model.invoke([SystemMessage("Be brief."), HumanMessage("Who built the lighthouse?")])
    assert isinstance(answer, AIMessage)
    assert answer.response_metadata["model_name"] == "tiny"
    assert "Ada Quill" in answer.response_metadata["sources"][0]["text"]
    assert answer.content in answer.response_metadata["sources"][0]["text"]
    assert asyncio.run(model.ainvoke("Who built the lighthouse?")).content == answer.content
    with pytest.raises(UsageError, match="question is empty"):
        model.invoke("")
    with pytest.raises(CorpusError):
        ChatPrecog(corpus=corpus + "-none").invoke("Who?")


def test_a_chat_model_speaks_piece_by_piece_and_stops(corpus: str) -> None:
    model = ChatPrecog(corpus=corpus, free=True, max_tokens=6)
    pieces = list(model.stream("Who built the lighthouse?"))
    whole = model.invoke("Who built the lighthouse?")
    assert len(pieces) > 2
    assert "".join(str(piece.content) for piece in pieces).strip() == whole.content
    assert pieces[-1].response_metadata["sources"]
    stop = str(whole.content)[3:6]
    assert model.invoke("Who built the lighthouse?", stop=[stop]).content == str(whole.content).partition(stop)[0]
    first = next(iter(model.stream("Who built the lighthouse?", stop=[stop])))
    assert first.content == str(whole.content).partition(stop)[0]


def test_a_chain_of_both(corpus: str) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{question}")])
    model = ChatPrecog(max_tokens=4)
    retriever = PrecogRetriever(corpus=corpus)
    chain = {"context": retriever, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert chain.invoke("Who built the lighthouse?")
    alone = model.invoke("Who built the lighthouse?").response_metadata["tokens_processed"]
    message = (prompt | model).invoke({"context": "Ada Quill built it.", "question": "Who built the lighthouse?"})
    assert message.response_metadata["tokens_processed"] > alone


def test_a_history_is_a_memory(home: Path) -> None:
    history = PrecogChatMessageHistory("ana")
    assert history.messages == []
    history.clear()
    said = [HumanMessage("Clara moved to Lisbon."), AIMessage("When was that?"), SystemMessage("Speak English.")]
    history.add_messages([*said, AIMessage(""), ToolMessage("", tool_call_id="1")])
    again = PrecogChatMessageHistory("ana")
    assert [(message.type, message.content) for message in again.messages] == [
        (message.type, message.content) for message in said
    ]
    assert [message.content for message in PrecogChatMessageHistory("ana", limit=1).messages] == ["Speak English."]
    assert PrecogChatMessageHistory("ben").messages == []
    answer = ChatPrecog(user="ana", always_answer=True).invoke("Where did Clara move?")
    assert answer.response_metadata["sources"][0]["text"] == "Clara moved to Lisbon."
    assert len(again.messages) == 3  # a question leaves nothing
    again.clear()
    assert history.messages == []


def test_what_a_field_said_before_answers_nothing(corpus: str) -> None:
    model = ChatPrecog(corpus=corpus, always_answer=True)
    assert model.invoke("Who built the lighthouse?").content
    with pytest.raises(CorpusError):
        model.model_copy(update={"corpus": corpus + "-none"}).invoke("Who built the lighthouse?")
    model.corpus = corpus + "-none"
    with pytest.raises(CorpusError):
        model.invoke("Who built the lighthouse?")
    retriever = PrecogRetriever(user="ana", k=1)
    PrecogChatMessageHistory("ana").add_user_message("Clara moved to Lisbon.")
    assert retriever.invoke("Clara")
    assert retriever.model_copy(update={"user": "ben"}).invoke("Clara") == []


def test_a_shared_cache_keeps_no_answers_unless_asked_and_tells_users_apart(corpus: str) -> None:
    PrecogChatMessageHistory("ana").add_user_message("Clara moved to Lisbon.")
    shared = InMemoryCache()
    set_llm_cache(shared)
    try:
        ChatPrecog(user="ana", always_answer=True).invoke("Where did Clara move?")
        assert not shared._cache
    finally:
        set_llm_cache(None)
    for user in ("ana", "ben"):
        ChatPrecog(corpus=corpus, user=user, cache=shared, always_answer=True).invoke("Where did Clara move?")
    assert len(shared._cache) == 2


def test_copies_open_the_same_by_themselves(corpus: str) -> None:
    model = ChatPrecog(corpus=corpus, always_answer=True)
    answer = model.invoke("Who built the lighthouse?").content
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.invoke("Who built the lighthouse?").content == answer
        assert copied.knowledge is not model.knowledge


def test_settings_of_one_call_hold_for_it(corpus: str) -> None:
    model = ChatPrecog(corpus=corpus, free=True)
    assert len(list(model.stream("Who?", max_tokens=2))) <= 3
    with pytest.raises(UsageError, match="temperature"):
        model.invoke("Who?", temperature=-1.0)
    with pytest.raises(UsageError, match="seed"):
        model.bind(seed=1 << 70, temperature=1.0).invoke("Who?")
