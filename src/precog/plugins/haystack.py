"""PRECOG in Haystack: a component that retrieves, and one that answers."""

from typing import Any

from haystack import Document, component, default_to_dict
from haystack.dataclasses import GeneratedAnswer

from precog.config import Retrieval
from precog.plugins.answering import Asking, Passage
from precog.plugins.knowledge import Knowledge, knowledge_of


@component
class PrecogRetriever:
    """Chunks of a corpus, or, without a corpus, what a user has said, found by meaning and by words.

    Args:
        corpus: folder of a corpus.
        user: whose memory, where there is no corpus.
        top_k: most documents.
        retrieval: by meaning, by words, or both.
        encoder: of sentences; None for the corpus's own.
    """

    def __init__(
        self,
        corpus: str | None = None,
        user: str | None = None,
        top_k: int = 4,
        retrieval: Retrieval = "hybrid",
        encoder: str | None = None,
    ) -> None:
        self.corpus, self.user, self.top_k, self.retrieval, self.encoder = corpus, user, top_k, retrieval, encoder
        self._knowledge: Knowledge | None = None

    @property
    def knowledge(self) -> Knowledge:
        """What is searched; opened when it is first needed."""
        return knowledge_of(self, corpus=self.corpus, user=self.user, encoder=self.encoder)

    def to_dict(self) -> dict[str, Any]:
        """As Haystack writes it to a file."""
        return default_to_dict(
            self, corpus=self.corpus, user=self.user, top_k=self.top_k, retrieval=self.retrieval, encoder=self.encoder
        )

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Documents for a query, the best first."""
        most = self.top_k if top_k is None else top_k
        found = self.knowledge.passages(query, most, retrieval=self.retrieval)
        return {"documents": [_document(passage) for passage in found]}


@component
class PrecogAnswerer:
    """Answers from a corpus, a user's memory, or both; without either it is the model alone.

    Args:
        corpus: folder of a corpus.
        user: whose memory; nothing is remembered of what is asked.
        model: folder or name of a model; None for the corpus's own.
        top_k: passages that are looked at.
        free: let the model say what it likes instead of quoting what was found.
        min_confidence: below it there is no answer; None for the model's own.
        always_answer: answer whatever the confidence.
    """

    def __init__(
        self,
        corpus: str | None = None,
        user: str | None = None,
        model: str | None = None,
        top_k: int = 3,
        free: bool = False,
        min_confidence: float | None = None,
        always_answer: bool = False,
    ) -> None:
        self.corpus, self.user, self.model, self.top_k = corpus, user, model, top_k
        self.free, self.min_confidence, self.always_answer = free, min_confidence, always_answer
        self._knowledge: Knowledge | None = None

    @property
    def knowledge(self) -> Knowledge:
        """What answers; opened when it is first needed."""
        return knowledge_of(self, corpus=self.corpus, user=self.user, model=self.model)

    def to_dict(self) -> dict[str, Any]:
        """As Haystack writes it to a file."""
        return default_to_dict(
            self,
            corpus=self.corpus,
            user=self.user,
            model=self.model,
            top_k=self.top_k,
            free=self.free,
            min_confidence=self.min_confidence,
            always_answer=self.always_answer,
        )

    @component.output_types(answers=list[GeneratedAnswer], documents=list[Document])
    def run(self, query: str) -> dict[str, list[Any]]:
        """An answer, with the documents it stands on; of none where it abstains."""
        how = Asking(self.top_k, self.free, self.min_confidence, self.always_answer)
        told = self.knowledge.ask(query, how)
        documents = [_document(passage) for passage in told.passages]
        answer = GeneratedAnswer(data=told.text, query=query, documents=documents, meta=told.short_details)
        return {"answers": [answer], "documents": documents}


def _document(passage: Passage) -> Document:
    return Document(content=passage.text, meta=passage.metadata, score=passage.score)
