"""BM25 over an inverted index of NumPy arrays: added to and removed from, no stop words, any language.

score(q, d) = Σ_{t ∈ q} idf(t) · tf / (tf + k₁ (1 − b + b · |d| / mean |d|)),  idf(t) = ln(1 + (n − df + ½)/(df + ½))
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int32, Int64, UInt16, UInt32, UInt64

from precog.index.index_file import CommitOf, IndexFile, without_ids, write_index_file
from precog.index.words import term_hashes

_KIND = "lexical"
# chosen on questions about 50 titles of SQuAD's training set, among k₁ 0.6 … 2.0 and b 0.4 … 0.9
_K1, _B = 0.9, 0.75
_COMMON_SHARE = 8  # a term in one of eight chunks is kept as a full row of scores: adding it is a single pass
_COMMON_BYTES_SHARE = 2  # and such rows take at most half the bytes of the postings


class LexicalIndex:
    """Chunks by the words they contain; safe to search from several threads while nobody changes it."""

    def __init__(
        self,
        chunk_ids: Int64[np.ndarray, " n"],
        lengths: UInt32[np.ndarray, " n"],
        words: UInt64[np.ndarray, " words"],
        starts: Int64[np.ndarray, " words_and_one"],
        rows: Int32[np.ndarray, " postings"],
        counts: UInt16[np.ndarray, " postings"],
    ) -> None:
        self._chunk_ids = chunk_ids
        self._lengths = lengths
        self._words = words
        self._starts = starts
        self._rows = rows
        self._counts = counts
        self._impacts = self._score_postings()
        self._common = self._common_rows()

    @classmethod
    def build(cls, texts: Iterable[tuple[int, str]]) -> "LexicalIndex":
        """Indexes ``(chunk id, text)`` pairs, in any order; streams."""
        chunk_ids: list[int] = []
        lengths: list[int] = []
        words: list[UInt64[np.ndarray, " terms"]] = [np.zeros(0, np.uint64)]
        counts: list[UInt16[np.ndarray, " terms"]] = [np.zeros(0, np.uint16)]
        for chunk_id, text in texts:
            found = term_hashes(text)
            distinct, count = np.unique(found, return_counts=True)
            chunk_ids.append(chunk_id)
            lengths.append(len(found))
            words.append(distinct)
            counts.append(np.minimum(count, 0xFFFF).astype(np.uint16))
        rows = np.repeat(np.arange(len(chunk_ids), dtype=np.int32), [len(w) for w in words[1:]])
        postings = (np.concatenate(words), rows, np.concatenate(counts))
        return cls._from_postings(np.array(chunk_ids, np.int64), np.array(lengths, np.uint32), *postings)

    @classmethod
    def _from_postings(
        cls,
        chunk_ids: Int64[np.ndarray, " n"],
        lengths: UInt32[np.ndarray, " n"],
        words: UInt64[np.ndarray, " postings"],
        rows: Int32[np.ndarray, " postings"],
        counts: UInt16[np.ndarray, " postings"],
    ) -> "LexicalIndex":
        order = np.argsort(chunk_ids, kind="stable")
        if np.any(order[1:] < order[:-1]):
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            chunk_ids, lengths, rows = chunk_ids[order], lengths[order], place[rows].astype(np.int32)
        by_word = np.lexsort((rows, words))
        words, rows, counts = words[by_word], rows[by_word], counts[by_word]
        firsts = np.flatnonzero(np.concatenate([[True], words[1:] != words[:-1]])) if len(words) else np.zeros(0, int)
        starts = np.append(firsts, len(words)).astype(np.int64)
        return cls(chunk_ids, lengths, words[firsts], starts, rows, counts)

    def with_added(self, texts: Iterable[tuple[int, str]]) -> "LexicalIndex":
        """A new index that has these chunks too; their ids must be new."""
        more = LexicalIndex.build(texts)
        return LexicalIndex._from_postings(
            np.concatenate([self._chunk_ids, more._chunk_ids]),
            np.concatenate([self._lengths, more._lengths]),
            np.concatenate([self._posting_words(), more._posting_words()]),
            np.concatenate([self._rows, more._rows + np.int32(len(self._chunk_ids))]),
            np.concatenate([self._counts, more._counts]),
        )

    def without(self, chunk_ids: Iterable[int]) -> "LexicalIndex":
        """A new index that has never seen these chunks: words that only they had are gone too."""
        keep = ~np.isin(self._chunk_ids, np.fromiter(chunk_ids, np.int64))
        place = np.cumsum(keep) - 1
        kept = keep[self._rows]
        rows = place[self._rows[kept]].astype(np.int32)
        postings = (self._posting_words()[kept], rows, self._counts[kept])
        return LexicalIndex._from_postings(self._chunk_ids[keep], self._lengths[keep], *postings)

    @property
    def chunk_ids(self) -> Int64[np.ndarray, " n"]:
        """Ids of the indexed chunks, rising."""
        return self._chunk_ids

    def scores(self, query: str) -> Float32[np.ndarray, " n"]:
        """The BM25 score of every chunk, in the order of ``chunk_ids``."""
        total = np.zeros(len(self._chunk_ids), dtype=np.float32)
        asked = term_hashes(query)
        if len(self._words) == 0 or len(asked) == 0:
            return total
        places = np.minimum(self._words.searchsorted(asked), len(self._words) - 1)
        for number in sorted(set(places[self._words[places] == asked].tolist())):
            row = self._common.get(number)
            if row is not None:
                total += row
            else:
                start, end = self._starts[number : number + 2].tolist()
                total[self._rows[start:end]] += self._impacts[start:end]
        return total

    def save(self, path: Path, *, generation: int, tag: str, commit: str = "") -> None:
        """Writes the index atomically.

        Raises:
            StorageError: the disk is full or refuses.
        """
        parts = {
            "chunk_ids": self._chunk_ids,
            "lengths": self._lengths,
            "words": self._words,
            "starts": self._starts,
            "rows": self._rows,
            "counts": self._counts,
        }
        write_index_file(path, kind=_KIND, generation=generation, commit=commit, tag=tag, parts=parts)

    @classmethod
    def load(cls, path: Path, *, tag: str, commit_of: CommitOf = without_ids) -> tuple["LexicalIndex", int]:
        """Reads an index back, with the generation it was saved at.

        Raises:
            StaleIndexError: the file is missing, damaged, or made with another tag or of a commit that is not known.
        """
        file = IndexFile(path, kind=_KIND, tag=tag, commit_of=commit_of)
        try:
            names = ("chunk_ids", "lengths", "words", "starts", "rows", "counts")
            return cls(*(file.array(name) for name in names)), file.generation
        finally:
            file.close()

    def _posting_words(self) -> UInt64[np.ndarray, " postings"]:
        return np.repeat(self._words, np.diff(self._starts))

    def _score_postings(self) -> Float32[np.ndarray, " postings"]:
        if len(self._rows) == 0:
            return np.zeros(0, np.float32)
        num_with_word = np.diff(self._starts)
        idf = np.log1p((len(self._chunk_ids) - num_with_word + 0.5) / (num_with_word + 0.5)).astype(np.float32)
        mean_length = max(1.0, float(self._lengths.mean()))
        damping = (_K1 * (1 - _B + _B * self._lengths / mean_length)).astype(np.float32)
        counts = self._counts.astype(np.float32)
        impacts: Float32[np.ndarray, " postings"] = (
            np.repeat(idf, num_with_word) * counts / (counts + damping[self._rows])
        )
        return impacts

    def _common_rows(self) -> dict[int, Float32[np.ndarray, " n"]]:
        num_with_word = np.diff(self._starts)
        common = np.flatnonzero(num_with_word * _COMMON_SHARE >= max(1, len(self._chunk_ids)))
        budget_bytes = (self._rows.nbytes + self._impacts.nbytes) // _COMMON_BYTES_SHARE
        most = budget_bytes // max(1, 4 * len(self._chunk_ids))
        common = common[np.argsort(-num_with_word[common], kind="stable")][:most]
        table: dict[int, Float32[np.ndarray, " n"]] = {}
        for number in common.tolist():
            part = slice(self._starts[number], self._starts[number + 1])
            row = np.zeros(len(self._chunk_ids), dtype=np.float32)
            row[self._rows[part]] = self._impacts[part]
            table[number] = row
        return table
