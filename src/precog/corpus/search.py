"""A question ▸ the chunks that may answer it: no model, no state."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Float32

from precog.corpus.corpus import index_source, open_encoder, settings_of
from precog.corpus.settings import CorpusSettings
from precog.encoders import Encoder
from precog.errors import CorpusError, UsageError
from precog.index import HybridIndex, Retrieval, SearchHit
from precog.interrupt import check_asked
from precog.store import Chunk, CorpusStore
from precog.text.question import check_question


@dataclass(frozen=True)
class Found:
    """A chunk that was found.

    Attributes:
        chunk: its text and where it stands.
        hit: its scores.
    """

    chunk: Chunk
    hit: SearchHit

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        info = self.chunk.info
        return {
            "document": self.chunk.source,
            "page": info.page,
            "span": list(info.span),
            "score": round(self.hit.score, 6),
            "text": info.text,
            "dense": round(self.hit.dense, 6),
            "lexical": round(self.hit.lexical, 6),
        }


@dataclass(frozen=True)
class SearchResult:
    """What a search found, best first, and its time.

    Attributes:
        found: the chunks.
        encode_sec: making the question's key.
        search_sec: comparing it, and looking the chunks up; words are compared while the key is made.
        key: of the question; None where words alone were compared.
    """

    found: list[Found]
    encode_sec: float
    search_sec: float
    key: Float32[np.ndarray, " E"] | None = None


class Searcher:
    """A corpus, open to be searched many times, by several threads at once; sees what writers commit meanwhile.

    Attributes:
        store: the corpus.
        settings: what it was made with.
    """

    def __init__(self, corpus: Path, *, encoder: str | Encoder | None = None, retrieval: Retrieval = "hybrid") -> None:
        """Opens a corpus.

        Args:
            corpus: its folder.
            encoder: where the sentence encoder is, or one that is open; None for the corpus's own.
            retrieval: by meaning, by words, or both, where a search does not say.

        Raises:
            CorpusError: it is no corpus.
            EncoderError: it is not the encoder that made the keys.
        """
        _check_retrieval(retrieval)
        self._retrieval: Retrieval = retrieval
        self._corpus = corpus
        self._words = ThreadPoolExecutor(max_workers=1, thread_name_prefix="words")
        self.store = CorpusStore.open(corpus)
        try:
            self.settings: CorpusSettings = settings_of(self.store)
            self._encoder: Encoder | None = None
            if retrieval != "bm25" or encoder is not None:
                self._encoder = open_encoder(self.store, self.settings, encoder)
            self._loading = threading.Lock()
            self._generation = -1
            self._index = self._load()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Searcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the corpus."""
        self._words.shutdown(cancel_futures=True)
        self.store.close()

    def _load(self) -> HybridIndex:
        source = index_source(self.store, self.settings.encoder_fingerprint)
        index, _ = HybridIndex.open(self.store.folder, source)
        self._generation = source.generation
        return index

    def _current_index(self) -> HybridIndex:
        """The index of what is committed; whoever finds it changed loads it for all."""
        with self._loading:
            if self.store.generation != self._generation:
                self._index = self._load()
            return self._index

    def search(
        self,
        question: str,
        k: int,
        *,
        key: Float32[np.ndarray, " E"] | None = None,
        retrieval: Retrieval | None = None,
    ) -> SearchResult:
        """The k best chunks for a question.

        Args:
            question: in words.
            k: most chunks.
            key: of the question, where the encoder has made it already.
            retrieval: by meaning, by words, or both; None for the way it was opened with.

        Raises:
            UsageError: the question is empty, k is less than 1, or meaning is asked of what was opened for words.
            CorpusError: the corpus that was opened is no longer the one in its place.
            CancelledError: whoever asked has gone.
        """
        check_question(question)
        way = self._retrieval if retrieval is None else retrieval
        _check_retrieval(way)
        if way != "bm25" and self._encoder is None:
            raise UsageError("this corpus was opened to compare words alone", given=way, expected="bm25")
        if k < 1:
            raise UsageError("--top-k is out of range", given=k, expected="at least 1")
        if self.store.fate != "there":  # its open files would go on answering, with what may be forgotten
            hint = "start again to see what is there now"
            raise CorpusError("the corpus was replaced or removed meanwhile", given=self._corpus, hint=hint)
        index = self._current_index()
        started = time.perf_counter()
        worded = None
        if way == "hybrid" and key is None:  # words need no key: they are looked up while it is made
            worded = self._words.submit(index.by_words, question, k)
        if key is None and self._encoder is not None and way != "bm25":
            key = self._encoder.encode_query(question)
        encoded = time.perf_counter()
        check_asked()
        hits = index.search(question, key, k, retrieval=way, worded=None if worded is None else worded.result())
        chunks = self.store.chunks([hit.chunk_id for hit in hits])
        found = [Found(chunks[hit.chunk_id], hit) for hit in hits if hit.chunk_id in chunks]
        return SearchResult(found, encoded - started, time.perf_counter() - encoded, key)


def _check_retrieval(way: str) -> None:
    if way not in ("hybrid", "dense", "bm25"):
        raise UsageError("--retrieval: no such way", given=way, expected="hybrid, dense or bm25")
