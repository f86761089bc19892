"""Search: by meaning, by words, or by both at once.

Hybrid score of a chunk: ½ · dense / max dense + ½ · BM25 / max BM25, each maximum taken over the corpus for this
question. Questions that quote a name or a number are found by their words, paraphrases by their meaning.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from precog.config import Retrieval
from precog.index.dense import EXACT_LIMIT, DenseIndex
from precog.index.index_file import CommitOf, StaleIndexError, without_ids
from precog.index.lexical import LexicalIndex
from precog.index.top import top_rows

DENSE_FILE = "dense.index"
LEXICAL_FILE = "lexical.index"
_MIN_CANDIDATES = 32
_ROUNDING = 1e-6  # of scores that were summed in another order


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
class Worded:
    """What the words of a question say of the chunks: the half of a search that needs no key.

    Attributes:
        chunk_ids: of the lexical index, rising.
        scores: BM25 of every chunk, in their order.
        best: the best chunks with a word of the question ▸ their scores.
    """

    chunk_ids: Int64[np.ndarray, " n"]
    scores: Float32[np.ndarray, " n"]
    best: dict[int, float]

    def of(self, wanted: Int64[np.ndarray, " m"]) -> Float32[np.ndarray, " m"]:
        """The scores of some chunks; 0 for one that is not there."""
        found = np.zeros(len(wanted), np.float32)
        if len(self.chunk_ids):
            places = np.minimum(self.chunk_ids.searchsorted(wanted), len(self.chunk_ids) - 1)
            is_here = self.chunk_ids[places] == wanted
            found[is_here] = self.scores[places[is_here]]
        return found


@dataclass(frozen=True)
class IndexSource:
    """Where an index comes from when its file does not serve: the catalogue, through three functions.

    Attributes:
        chunk_ids: ids of all visible chunks, any order.
        keys: ``(chunk id, keys)`` of the chunks asked for, or of all for None.
        texts: ``(chunk id, text)`` likewise.
        generation: of the catalogue.
        tag: whatever an index file must agree with: the encoder's fingerprint and the id of the corpus.
        dim: width of a key.
        followers: chunks whose text is made of others, too ▸ those that these ids, rising, have changed by coming or
            going; none by default.
        commit_of: the id of the commit that made a generation: of two copies of a corpus that went their own ways, one
            generation is not the other's. An index file of a commit that is not known is not brought up to date, but
            made anew.
    """

    chunk_ids: Callable[[], Iterable[int]]
    keys: Callable[[Sequence[int] | None], Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]]
    texts: Callable[[Sequence[int] | None], Iterable[tuple[int, str]]]
    generation: int
    tag: str
    dim: int
    followers: Callable[[Sequence[int]], Iterable[int]] = lambda _changed: ()
    commit_of: CommitOf = without_ids


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
                folder / DENSE_FILE,
                dim=source.dim,
                tag=source.tag,
                exact_limit=exact_limit,
                commit_of=source.commit_of,
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
            lexical, generation = LexicalIndex.load(folder / LEXICAL_FILE, tag=source.tag, commit_of=source.commit_of)
            if generation != source.generation:
                problem = problem or _older(folder / LEXICAL_FILE, generation, source.generation)
                new, gone = _difference(source.chunk_ids(), lexical.chunk_ids)
                stale = np.setdiff1d(list(source.followers(sorted(new + gone))), new).tolist() if new or gone else []
                lexical = lexical.without(gone + stale) if gone or stale else lexical
                lexical = lexical.with_added(source.texts(sorted(new + stale))) if new or stale else lexical
        except StaleIndexError as error:
            problem = problem or error
            lexical = LexicalIndex.build(source.texts(None))
        return cls(dense, lexical), problem

    @classmethod
    def refresh(cls, folder: Path, source: IndexSource) -> None:
        """Brings the files up to date; writes nothing when they are.

        Raises:
            StorageError: the disk is full or refuses; the index is made from the catalogue the next time.
        """
        index, problem = cls.open(folder, source)
        if problem is not None:
            commit = source.commit_of(source.generation) or ""
            index.save(folder, generation=source.generation, tag=source.tag, commit=commit)

    def save(self, folder: Path, *, generation: int, tag: str, commit: str = "") -> None:
        """Writes both files atomically.

        Raises:
            StorageError: the disk is full or refuses.
        """
        self.dense.save(folder / DENSE_FILE, generation=generation, tag=tag, commit=commit)
        self.lexical.save(folder / LEXICAL_FILE, generation=generation, tag=tag, commit=commit)

    def by_words(self, text: str, k: int) -> Worded:
        """The half of a hybrid search that can be done while the encoder is still at work."""
        scores = self.lexical.scores(text)
        rows = top_rows(scores, max(_MIN_CANDIDATES, 4 * k))
        best = zip(self.lexical.chunk_ids[rows].tolist(), scores[rows].tolist(), strict=True)
        return Worded(self.lexical.chunk_ids, scores, {chunk: score for chunk, score in best if score > 0})

    def search(
        self,
        text: str,
        key: Float32[np.ndarray, " E"] | None,
        k: int,
        *,
        retrieval: Retrieval = "hybrid",
        worded: Worded | None = None,
    ) -> list[SearchHit]:
        """The k best chunks for a question, best first; ties go to the older chunk.

        Args:
            text: the question.
            key: its key; may be None for ``bm25``, which needs no encoder.
            k: how many.
            retrieval: by meaning, by words, or both.
            worded: `by_words` of the same question and k, where that is done already.
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
        return self._search_both(worded or self.by_words(text, k), key, k)

    def search_part(
        self, worded: Worded, key: Float32[np.ndarray, " E"], k: int, chunk_ids: Int64[np.ndarray, " n"]
    ) -> list[SearchHit]:
        """The k best of some chunks only, by meaning and words, each maximum taken over these.

        Args:
            worded: `by_words` of the question.
            key: the question's.
            k: how many.
            chunk_ids: what is searched, rising.
        """
        dense, lexical = self.dense.part_scores(key, chunk_ids), worded.of(chunk_ids)
        best_dense, best_lexical = (max(float(of.max(initial=0)), 1e-6) for of in (dense, lexical))
        scores = 0.5 * np.maximum(dense, 0) / best_dense + 0.5 * lexical / best_lexical
        rows = top_rows(scores, k)
        return _hits(chunk_ids[rows], scores[rows], dense[rows], lexical[rows])

    def _search_both(self, worded: Worded, key: Float32[np.ndarray, " E"], k: int) -> list[SearchHit]:
        dense = self.dense.nearest(key, max(_MIN_CANDIDATES, 4 * k))
        lexical = dict(worded.best)
        best_dense = max(max(dense.values(), default=0.0), 1e-6)
        best_lexical = max(max(lexical.values(), default=0.0), 1e-6)
        unworded = [chunk for chunk in dense if chunk not in lexical]
        lexical.update(zip(unworded, _look_up(self.lexical.chunk_ids, worded.scores, unworded), strict=True))

        def fused(chunk: int, cosine: float) -> float:
            return 0.5 * max(cosine, 0.0) / best_dense + 0.5 * lexical[chunk] / best_lexical

        scored = [(-fused(chunk, score), chunk) for chunk, score in dense.items()]
        # whoever is not among the nearest is no nearer than the last of them: most need no look at their keys
        farthest = min(dense.values(), default=0.0) if self.dense.is_exact else best_dense
        bound = -sorted(scored)[k - 1][0] if 0 < k <= len(scored) else 0.0
        unscored = [chunk for chunk in lexical if chunk not in dense and fused(chunk, farthest) >= bound - _ROUNDING]
        dense.update(zip(unscored, self.dense.scores_of(key, unscored), strict=True))
        scored += [(-fused(chunk, dense[chunk]), chunk) for chunk in unscored]
        return [SearchHit(chunk, -score, dense[chunk], lexical[chunk]) for score, chunk in sorted(scored)[:k]]


def _older(path: Path, found: int, expected: int) -> StaleIndexError:
    return StaleIndexError("the index file is older than the catalogue", given=f"{path}, {found}", expected=expected)


def _difference(wanted: Iterable[int], present: Int64[np.ndarray, " n"]) -> tuple[list[int], list[int]]:
    ids = np.fromiter(wanted, np.int64)
    return np.setdiff1d(ids, present).tolist(), np.setdiff1d(present, ids).tolist()


def _look_up(ids: Int64[np.ndarray, " n"], scores: Float32[np.ndarray, " n"], wanted: Sequence[int]) -> list[float]:
    """The scores of these few chunks; 0 for one that is not there."""
    places = ids.searchsorted(wanted).tolist()
    return [
        float(scores[place]) if place < len(ids) and ids[place] == chunk else 0.0
        for chunk, place in zip(wanted, places, strict=True)
    ]


def _hits(
    chunks: Int64[np.ndarray, " k"],
    scores: Float32[np.ndarray, " k"],
    dense: Float32[np.ndarray, " k"],
    lexical: Float32[np.ndarray, " k"],
) -> list[SearchHit]:
    columns = (chunks.tolist(), scores.tolist(), dense.tolist(), lexical.tolist())
    return [SearchHit(*row) for row in zip(*columns, strict=True)]
