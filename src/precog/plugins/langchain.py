"""PRECOG in LangChain: a retriever, a chat model, and a chat history that is a user's memory."""

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.callbacks import CallbackManagerForLLMRun, CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr

from precog.errors import UsageError
from precog.index import Retrieval
from precog.memory.utterance import Utterance, has_words
from precog.plugins.answering import SETTINGS, Passage, Told, asking
from precog.plugins.knowledge import Knowledge, knowledge_of

_ROLES = {"human": HumanMessage, "ai": AIMessage, "system": SystemMessage}


class PrecogRetriever(BaseRetriever):
    """Chunks of a corpus, or, without a corpus, what a user has said, found by meaning and by words.

    Attributes:
        corpus: folder of a corpus.
        user: whose memory, where there is no corpus.
        k: most documents.
        retrieval: ``hybrid``, ``dense`` or ``bm25``.
        encoder: of sentences; None for the corpus's own.
    """

    corpus: str | None = None
    user: str | None = None
    k: int = 4
    retrieval: Retrieval = "hybrid"
    encoder: str | None = None
    _knowledge: Knowledge | None = PrivateAttr(default=None)

    @property
    def knowledge(self) -> Knowledge:
        """What is searched; opened when it is first needed."""
        return knowledge_of(self, corpus=self.corpus, user=self.user, encoder=self.encoder)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found = self.knowledge.passages(query, self.k, retrieval=self.retrieval)
        return [_document(passage) for passage in found]


class ChatPrecog(BaseChatModel):
    """A chat model that answers the last message from a corpus, a user's memory, or both.

    Without either it is the model alone, which reads the messages before the last one. What an answer stands on is in
    the message's ``response_metadata``: all that ``precog ask --json`` tells.

    Answers are kept in no cache unless ``cache`` names one: documents change, and what was forgotten is to be gone.

    Attributes:
        corpus: folder of a corpus.
        user: whose memory; nothing is remembered of what is asked.
        model: folder or name of a model; None for the corpus's own.
        top_k: passages that are looked at.
        free: let the model say what it likes instead of quoting what was found.
        min_confidence: below it there is no answer; None for the model's own.
        always_answer: answer whatever the confidence.
        temperature: of a free answer; 0 is greedy.
        seed: of a free answer.
        max_tokens: most tokens of an answer.
        cache: for answers; True for the one that is set for all models.
    """

    corpus: str | None = None
    user: str | None = None
    model: str | None = None
    top_k: int = 3
    free: bool = False
    min_confidence: float | None = None
    always_answer: bool = False
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int | None = None
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    _knowledge: Knowledge | None = PrivateAttr(default=None)

    @property
    def knowledge(self) -> Knowledge:
        """What answers; opened when it is first needed."""
        return knowledge_of(self, corpus=self.corpus, user=self.user, model=self.model)

    @property
    def _llm_type(self) -> str:
        return "precog"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("corpus", "user", *SETTINGS)}  # a cache knows answers by them
        return {"model": self.knowledge.model_name, **own}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        question, before = _asked(messages)
        told = self.knowledge.ask(question, asking(self, kwargs), before=before)
        message = AIMessage(_until(told.text, stop), response_metadata=_metadata(told))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if stop:  # what comes before a stop is known when the answer is
            result = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
            message = AIMessageChunk(content=result.content, response_metadata=result.response_metadata)
            yield ChatGenerationChunk(message=message)
            return
        question, before = _asked(messages)
        for piece in self.knowledge.stream(question, asking(self, kwargs), before=before):
            if isinstance(piece, Told):
                last = AIMessageChunk(content="", response_metadata=_metadata(piece), chunk_position="last")
                yield ChatGenerationChunk(message=last)
                continue
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
            if run_manager is not None:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk


class PrecogChatMessageHistory(BaseChatMessageHistory):
    """A chat history that is a user's memory: what is added is remembered, searched and answered from.

    Args:
        user: whose memory.
        model: that reads what is added; None for the memory's own.
        limit: most messages that are given back, the newest ones.

    Attributes:
        knowledge: the memory.
    """

    def __init__(self, user: str, *, model: str | None = None, limit: int = 100) -> None:
        super().__init__()
        self.knowledge = Knowledge(user=user, model=model)
        self._limit = limit

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # as the library's own example has it
        """The newest messages, the newest last."""
        turns = self.knowledge.turns(self._limit)
        return [_ROLES.get(turn.speaker or "", HumanMessage)(turn.text) for turn in turns]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Remembers messages; those without words, such as calls of tools, are left out."""
        at = datetime.datetime.now().astimezone()
        said = [(message.type, str(message.text)) for message in messages]
        turns = [Utterance(text, at, speaker) for speaker, text in said if has_words(text)]
        if turns:
            self.knowledge.remember(turns)

    def clear(self) -> None:
        """Forgets everything that is remembered of the user."""
        self.knowledge.forget_all()


def _document(passage: Passage) -> Document:
    metadata = {"score": passage.score, **passage.metadata}
    if "document" in metadata:
        metadata["source"] = metadata["document"]
    return Document(page_content=passage.text, metadata=metadata)


def _asked(messages: Sequence[BaseMessage]) -> tuple[str, list[str]]:
    """The last message, and what was said before it."""
    texts = [str(message.text) for message in messages]
    if not texts:
        raise UsageError("there is no question", expected="a message")
    return texts[-1], texts[:-1]


def _metadata(told: Told) -> dict[str, Any]:
    sources = [{"text": passage.text, "score": passage.score, **passage.metadata} for passage in told.passages]
    return {**told.short_details, "model_name": told.model, "sources": sources}


def _until(text: str, stop: Sequence[str] | None) -> str:
    found = [at for at in (text.find(one) for one in stop or ()) if at >= 0]
    return text[: min(found)] if found else text
