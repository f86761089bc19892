"""Search: by meaning, by words, or by both at once.

Hybrid score of a chunk: ½ · dense / max dense + ½ · BM25 / max BM25, each maximum taken over the corpus for this
question. Questions that quote a name or a number are found by their words, paraphrases by their meaning.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

from precog.index.dense import EXACT_LIMIT, DenseIndex
from precog.index.index_file import StaleIndexError
from precog.index.lexical import LexicalIndex
from precog.index.top import top_rows

Retrieval = Literal["hybrid", "dense", "bm25"]
DENSE_FILE = "dense.index"
LEXICAL_FILE = "lexical.index"
_MIN_CANDIDATES = 32


@dataclass(frozen=True)
class SearchHit:
    """A chunk that was found.

    Attributes:
        chunk_id: the catalogue's.
        score: what the hits are sorted by: in [0, 1] for hybrid, the cosine for dense, BM25's own for bm25.
        dense: the cosine of the question and the chunk's nearest window; 0 when only words were asked.
        lexical: BM25; 0 when only meaning was asked.
    """

    chunk_id: int
    score: float
    dense: float
    lexical: float


@dataclass(frozen=True)
class IndexSource:
    """Where an index comes from when its file does not serve: the catalogue, through three functions.

    Attributes:
        chunk_ids: ids of all visible chunks, any order.
        keys: ``(chunk id, keys)`` of the chunks asked for, or of all for None.
        texts: ``(chunk id, text)`` likewise.
        generation: of the catalogue.
        tag: whatever an index file must agree with: the encoder's fingerprint.
        dim: width of a key.
    """

    chunk_ids: Callable[[], Iterable[int]]
    keys: Callable[[Sequence[int] | None], Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]]
    texts: Callable[[Sequence[int] | None], Iterable[tuple[int, str]]]
    generation: int
    tag: str
    dim: int


class HybridIndex:
    """A dense and a lexical index over the same chunks."""

    def __init__(self, dense: DenseIndex, lexical: LexicalIndex) -> None:
        self.dense = dense
        self.lexical = lexical

    @classmethod
    def build(cls, source: IndexSource, *, exact_limit: int = EXACT_LIMIT) -> "HybridIndex":
        """Makes both from the catalogue."""
        dense = DenseIndex.build(source.dim, source.keys(None), exact_limit=exact_limit)
        return cls(dense, LexicalIndex.build(source.texts(None)))

    @classmethod
    def open(
        cls, folder: Path, source: IndexSource, *, exact_limit: int = EXACT_LIMIT
    ) -> tuple["HybridIndex", StaleIndexError | None]:
        """Loads both files, brings older ones up to date, and rebuilds what is missing, damaged or foreign.

        Returns:
            The index, and why a file was not used (None when both were). When the index was changed or rebuilt, save
            it, if this process may write.
        """
        problem: StaleIndexError | None = None
        try:
            dense, generation = DenseIndex.load(
                folder / DENSE_FILE, dim=source.dim, tag=source.tag, exact_limit=exact_limit
            )
            if generation != source.generation:
                problem = _older(folder / DENSE_FILE, generation, source.generation)
                new, gone = _difference(source.chunk_ids(), dense.chunk_ids)
                dense.remove(gone)
                dense.add(source.keys(new) if new else ())
        except StaleIndexError as error:
            problem = error
            dense = DenseIndex.build(source.dim, source.keys(None), exact_limit=exact_limit)
        try:
            lexical, generation = LexicalIndex.load(folder / LEXICAL_FILE, tag=source.tag)
            if generation != source.generation:
                problem = problem or _older(folder / LEXICAL_FILE, generation, source.generation)
                new, gone = _difference(source.chunk_ids(), lexical.chunk_ids)
                lexical = lexical.without(gone) if gone else lexical
                lexical = lexical.with_added(source.texts(new)) if new else lexical
        except StaleIndexError as error:
            problem = problem or error
            lexical = LexicalIndex.build(source.texts(None))
        return cls(dense, lexical), problem

    def save(self, folder: Path, *, generation: int, tag: str) -> None:
        """Writes both files atomically.

        Raises:
            StorageError: the disk is full or refuses.
        """
        self.dense.save(folder / DENSE_FILE, generation=generation, tag=tag)
        self.lexical.save(folder / LEXICAL_FILE, generation=generation, tag=tag)

    def search(
        self, text: str, key: Float32[np.ndarray, " E"] | None, k: int, *, retrieval: Retrieval = "hybrid"
    ) -> list[SearchHit]:
        """The k best chunks for a question, best first; ties go to the older chunk.

        Args:
            text: the question.
            key: its key; may be None for ``bm25``, which needs no encoder.
            k: how many.
            retrieval: by meaning, by words, or both.
        """
        if retrieval == "bm25":
            scores = self.lexical.scores(text)
            rows = top_rows(scores, k)
            rows = rows[scores[rows] > 0]
            return _hits(self.lexical.chunk_ids[rows], scores[rows], np.zeros(len(rows), np.float32), scores[rows])
        assert key is not None, "dense and hybrid retrieval compare keys"
        if retrieval == "dense":
            chunks, scores = self.dense.search(key, k)
            return _hits(chunks, scores, scores, np.zeros(len(chunks), np.float32))
        return self._search_both(text, key, k)

    def _search_both(self, text: str, key: Float32[np.ndarray, " E"], k: int) -> list[SearchHit]:
        num_candidates = max(_MIN_CANDIDATES, 4 * k)
        nearest, near_scores = self.dense.search(key, num_candidates)
        all_lexical = self.lexical.scores(text)
        rows = top_rows(all_lexical, num_candidates)
        worded = self.lexical.chunk_ids[rows[all_lexical[rows] > 0]]
        worded = np.array(sorted(set(worded.tolist()).difference(nearest.tolist())), dtype=np.int64)
        chunks = np.concatenate([nearest, worded])
        if len(chunks) == 0:
            return []
        dense = np.concatenate([near_scores, self.dense.scores_of(key, worded)])
        lexical = _look_up(self.lexical.chunk_ids, all_lexical, chunks)
        best_dense = max(float(near_scores.max(initial=0.0)), 1e-6)
        best_lexical = max(float(all_lexical.max(initial=0.0)), 1e-6)
        fused = (0.5 / best_dense) * np.maximum(dense, 0) + (0.5 / best_lexical) * lexical
        order = np.lexsort((chunks, -fused))[:k]
        return _hits(chunks[order], fused[order], dense[order], lexical[order])


def _older(path: Path, found: int, expected: int) -> StaleIndexError:
    return StaleIndexError("the index file is older than the catalogue", given=f"{path}, {found}", expected=expected)


def _difference(wanted: Iterable[int], present: Int64[np.ndarray, " n"]) -> tuple[list[int], list[int]]:
    ids = np.fromiter(wanted, np.int64)
    return np.setdiff1d(ids, present).tolist(), np.setdiff1d(present, ids).tolist()


def _look_up(
    ids: Int64[np.ndarray, " n"], scores: Float32[np.ndarray, " n"], wanted: Int64[np.ndarray, " m"]
) -> Float32[np.ndarray, " m"]:
    if len(ids) == 0:
        return np.zeros(len(wanted), np.float32)
    rows = np.minimum(ids.searchsorted(wanted), len(ids) - 1)
    return np.where(ids[rows] == wanted, scores[rows], np.float32(0))


def _hits(
    chunks: Int64[np.ndarray, " k"],
    scores: Float32[np.ndarray, " k"],
    dense: Float32[np.ndarray, " k"],
    lexical: Float32[np.ndarray, " k"],
) -> list[SearchHit]:
    columns = (chunks.tolist(), scores.tolist(), dense.tolist(), lexical.tolist())
    return [SearchHit(*row) for row in zip(*columns, strict=True)]
