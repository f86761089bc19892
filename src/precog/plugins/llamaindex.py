"""PRECOG in LlamaIndex: a retriever, a language model, and a memory."""

import asyncio
import datetime
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM
from llama_index.core.memory.types import BaseMemory
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from precog.errors import UsageError
from precog.index import Retrieval
from precog.memory.utterance import Utterance, has_words
from precog.plugins.answering import Passage, Told, asking
from precog.plugins.knowledge import Knowledge, knowledge_of

P = TypeVar("P")
_Completions = Generator[CompletionResponse, None, None]
_Replies = Generator[ChatResponse, None, None]
_ROLES = {role.value: role for role in MessageRole}


class PrecogRetriever(BaseRetriever):
    """Chunks of a corpus, or, without a corpus, what a user has said, found by meaning and by words.

    Args:
        corpus: folder of a corpus.
        user: whose memory, where there is no corpus.
        similarity_top_k: most nodes.
        retrieval: ``hybrid``, ``dense`` or ``bm25``.
        encoder: of sentences; None for the corpus's own.

    Attributes:
        knowledge: what is searched; opened when it is first needed.
    """

    def __init__(
        self,
        corpus: str | None = None,
        user: str | None = None,
        *,
        similarity_top_k: int = 4,
        retrieval: Retrieval = "hybrid",
        encoder: str | None = None,
    ) -> None:
        super().__init__()
        self.knowledge = Knowledge(corpus, user, encoder=encoder)  # its arguments stay as they are
        self._top_k, self._retrieval = similarity_top_k, retrieval

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self.knowledge.passages(query_bundle.query_str, self._top_k, retrieval=self._retrieval)
        return [_node(passage) for passage in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class PrecogLLM(CustomLLM):
    """A language model that answers from a corpus, a user's memory, or both; without either it is the model alone.

    What an answer stands on is in the response's ``raw``: all that ``precog ask --json`` tells.
    """

    corpus: str | None = Field(default=None, description="Folder of a corpus.")
    user: str | None = Field(default=None, description="Whose memory; nothing is remembered of what is asked.")
    model: str | None = Field(default=None, description="Folder or name of a model; the corpus's own by default.")
    top_k: int = Field(default=3, description="Passages that are looked at.")
    free: bool = Field(default=False, description="Let the model say what it likes instead of quoting.")
    min_confidence: float | None = Field(default=None, description="Below it there is no answer.")
    always_answer: bool = Field(default=False, description="Answer whatever the confidence.")
    temperature: float = Field(default=0.0, description="Of a free answer; 0 is greedy.")
    seed: int = Field(default=0, description="Of a free answer.")
    max_tokens: int | None = Field(default=None, description="Most tokens of an answer.")
    context_window: int = Field(default=32_768, description="Tokens that prompts are cut to; a state has no limit.")
    _knowledge: Knowledge | None = PrivateAttr(default=None)

    @property
    def knowledge(self) -> Knowledge:
        """What answers; opened when it is first needed."""
        return knowledge_of(self, corpus=self.corpus, user=self.user, model=self.model)

    @classmethod
    def class_name(cls) -> str:
        """Name in files of LlamaIndex."""
        return "PrecogLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex wants to know of a model."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or 64,
            is_chat_model=False,
            model_name=self.knowledge.model_name,
        )

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answers a prompt."""
        return self._completed(prompt, kwargs)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The same in a thread: others go on meanwhile."""
        return await asyncio.to_thread(self._completed, prompt, kwargs)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> _Completions:
        """Answers a prompt piece by piece."""
        return self._completions(prompt, kwargs)

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> AsyncGenerator[CompletionResponse, None]:
        """The same; others go on between the pieces."""
        return _in_threads(self._completions(prompt, kwargs))

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answers the last message; the model alone reads those before it."""
        return self._replied(messages, kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The same in a thread: others go on meanwhile."""
        return await asyncio.to_thread(self._replied, messages, kwargs)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> _Replies:
        """Answers the last message piece by piece."""
        return self._replies(messages, kwargs)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        """The same; others go on between the pieces."""
        return _in_threads(self._replies(messages, kwargs))

    def _completed(self, prompt: str, given: Mapping[str, Any]) -> CompletionResponse:
        told = self.knowledge.ask(prompt, asking(self, given))
        return CompletionResponse(text=told.text, raw=_raw(told))

    def _completions(self, prompt: str, given: Mapping[str, Any]) -> _Completions:
        text = ""
        for piece in self.knowledge.stream(prompt, asking(self, given)):
            if isinstance(piece, Told):
                yield CompletionResponse(text=text, delta="", raw=_raw(piece))
            else:
                text += piece
                yield CompletionResponse(text=text, delta=piece)

    def _replied(self, messages: Sequence[ChatMessage], given: Mapping[str, Any]) -> ChatResponse:
        question, before = _asked(messages)
        told = self.knowledge.ask(question, asking(self, given), before=before)
        return ChatResponse(message=_said(told.text), raw=_raw(told))

    def _replies(self, messages: Sequence[ChatMessage], given: Mapping[str, Any]) -> _Replies:
        question, before = _asked(messages)
        text = ""
        for piece in self.knowledge.stream(question, asking(self, given), before=before):
            if isinstance(piece, Told):
                yield ChatResponse(message=_said(text), delta="", raw=_raw(piece))
            else:
                text += piece
                yield ChatResponse(message=_said(text), delta=piece)


class PrecogMemory(BaseMemory):
    """A user's memory: what is put is remembered for good, and a chat is given back what bears on its last message."""

    user: str = Field(description="Whose memory.")
    model: str | None = Field(default=None, description="That reads what is put; the memory's own by default.")
    recent: int = Field(default=6, description="Newest messages that are always given back.")
    recalled: int = Field(default=4, description="Most older messages that are given back before them.")
    _knowledge: Knowledge | None = PrivateAttr(default=None)

    @classmethod
    def class_name(cls) -> str:
        """Name in files of LlamaIndex."""
        return "PrecogMemory"

    @classmethod
    def from_defaults(cls, user: str = "", **kwargs: Any) -> "PrecogMemory":
        """The memory of a user."""
        return cls(user=user, **kwargs)

    @property
    def knowledge(self) -> Knowledge:
        """The memory; opened when it is first needed."""
        return knowledge_of(self, user=self.user, model=self.model)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """What was said before that bears on the input, as one message of the system, and the newest messages."""
        newest = [_message(turn) for turn in self.knowledge.turns(self.recent)]
        if not input or not input.strip():
            return newest
        shown = {message.content for message in newest}
        found = self.knowledge.passages(input, self.recalled + len(newest)) if self.recalled else []
        lines = [_told(passage) for passage in found if passage.text not in shown][: self.recalled]
        if not lines:
            return newest
        return [ChatMessage(role=MessageRole.SYSTEM, content="\n".join(["Said before:", *lines])), *newest]

    def get_all(self) -> list[ChatMessage]:
        """Everything that was said."""
        return [_message(turn) for turn in self.knowledge.turns(None)]

    def put(self, message: ChatMessage) -> None:
        """Remembers a message."""
        self.put_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Remembers messages; those without words are left out."""
        at = datetime.datetime.now().astimezone()
        said = [(message.role.value, message.content or "") for message in messages]
        turns = [Utterance(text, at, role) for role, text in said if has_words(text)]
        if turns:
            self.knowledge.remember(turns)

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Forgets everything, and remembers these."""
        self.reset()
        self.put_messages(messages)

    def reset(self) -> None:
        """Forgets everything that is remembered of the user."""
        self.knowledge.forget_all()


async def _in_threads(pieces: Generator[P, None, None]) -> AsyncGenerator[P, None]:
    """The same, each awaited in a thread; whoever leaves stops the model."""
    try:
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece
    finally:
        await asyncio.shield(asyncio.to_thread(pieces.close))


def _node(passage: Passage) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=passage.text, metadata=passage.metadata), score=passage.score)


def _message(turn: Utterance) -> ChatMessage:
    return ChatMessage(role=_ROLES.get(turn.speaker or "", MessageRole.USER), content=turn.text)


def _asked(messages: Sequence[ChatMessage]) -> tuple[str, list[str]]:
    """The last message, and what was said before it."""
    texts = [message.content or "" for message in messages]
    if not texts:
        raise UsageError("there is no question", expected="a message")
    return texts[-1], texts[:-1]


def _said(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


def _told(passage: Passage) -> str:
    who = passage.metadata.get("speaker")
    return f"{who}: {passage.text}" if who else passage.text


def _raw(told: Told) -> dict[str, Any]:
    sources = [{"text": passage.text, "score": passage.score, **passage.metadata} for passage in told.passages]
    return {**told.short_details, "sources": sources}
