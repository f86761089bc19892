"""Keys in DRAM: every key compared up to 200,000 of them (FP16), inverted lists (FP32) beyond.

A chunk has one key per window of the encoder; its score is the largest inner product of them.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import faiss
import numpy as np
from jaxtyping import Float16, Float32, Int64, UInt8

from precog.errors import CorpusError
from precog.index.index_file import CommitOf, IndexFile, Part, StaleIndexError, without_ids, write_index_file

EXACT_LIMIT = 200_000
_KIND = "dense"
_TRAINING_KEYS_PER_LIST = 48
_SEED = 20


class DenseIndex:
    """Chunks by the direction of their keys; safe to search from several threads while nobody changes or saves it."""

    def __init__(self, dim: int, *, exact_limit: int = EXACT_LIMIT) -> None:
        self._dim = dim
        self._exact_limit = exact_limit
        self._index: faiss.Index = _exact_index(dim)
        self._labels = np.zeros(0, np.int64)  # FAISS's name of each row: rising, not always gapless
        self._chunk_of_row = np.zeros(0, np.int64)
        self._refresh()

    @classmethod
    def build(
        cls,
        dim: int,
        keys: Iterable[tuple[int, Float32[np.ndarray, "_ E"]]],
        *,
        exact_limit: int = EXACT_LIMIT,
    ) -> "DenseIndex":
        """Indexes ``(chunk id, keys)`` pairs; streams."""
        index = cls(dim, exact_limit=exact_limit)
        index.add(keys)
        return index

    @property
    def chunk_ids(self) -> Int64[np.ndarray, " n"]:
        """Ids of the indexed chunks, rising."""
        return self._chunk_ids

    @property
    def num_keys(self) -> int:
        """Keys held, windows counted one by one."""
        return len(self._chunk_of_row)

    @property
    def is_exact(self) -> bool:
        """Whether a search compares every key."""
        return isinstance(self._index, faiss.IndexScalarQuantizer)

    def add(self, keys: Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]) -> None:
        """Adds chunks, whose ids must be new; turns to inverted lists when the exact limit is passed."""
        block: list[Float32[np.ndarray, "_ E"]] = []
        owners: list[int] = []
        for chunk_id, rows in keys:
            if rows.shape[1] != self._dim:
                raise CorpusError("a key has another width than the index", given=rows.shape[1], expected=self._dim)
            block.append(rows)
            owners += [chunk_id] * len(rows)
            if len(owners) >= 4096:
                self._append(np.concatenate(block), np.array(owners, np.int64))
                block, owners = [], []
        if owners:
            self._append(np.concatenate(block), np.array(owners, np.int64))
        if self.is_exact and self.num_keys > self._exact_limit:
            self._turn_to_lists()
        self._refresh()

    def remove(self, chunk_ids: Iterable[int]) -> None:
        """Removes chunks with all their keys; ids that are not there are ignored."""
        gone = np.isin(self._chunk_of_row, np.fromiter(chunk_ids, np.int64))
        if not gone.any():
            return
        labels = np.ascontiguousarray(self._labels[gone])
        # inverted lists with a hash table take the array, the exact index is faster with the set
        kind = faiss.IDSelectorBatch if self.is_exact else faiss.IDSelectorArray
        self._index.remove_ids(kind(labels))
        self._chunk_of_row = self._chunk_of_row[~gone]
        self._labels = np.arange(len(self._chunk_of_row)) if self.is_exact else self._labels[~gone]
        self._refresh()

    def search(
        self, key: Float32[np.ndarray, " E"], k: int
    ) -> tuple[Int64[np.ndarray, " k"], Float32[np.ndarray, " k"]]:
        """The k nearest chunks and their scores, best first; fewer if there are fewer."""
        found = self.nearest(key, k)
        return np.array(list(found), np.int64), np.array(list(found.values()), np.float32)

    def nearest(self, key: Float32[np.ndarray, " E"], k: int) -> dict[int, float]:
        """The same as chunk ▸ score, best first."""
        faiss.omp_set_num_threads(1)  # one query gains nothing from two threads and waits for both on a busy machine
        num_wanted = min(2 * k if self._most_windows > 1 else k, self.num_keys)
        found: dict[int, float] = {}
        while num_wanted > 0:
            scores, labels = self._index.search(key[None], num_wanted)
            num_found = num_wanted if labels[0, -1] >= 0 else int(np.count_nonzero(labels[0] >= 0))
            rows = labels[0, :num_found]
            chunks = self._chunk_of_row[rows if self.is_exact else self._labels.searchsorted(rows)]
            found = {}
            for chunk, score in zip(chunks.tolist(), scores[0].tolist(), strict=False):
                found.setdefault(chunk, score)  # the first of several windows is the best
                if len(found) == k:
                    return found
            if num_wanted >= min(k * self._most_windows, self.num_keys):
                break
            num_wanted = min(k * self._most_windows, self.num_keys)
        return found

    def scores_of(self, key: Float32[np.ndarray, " E"], chunk_ids: Sequence[int]) -> list[float]:
        """The score of each of these few chunks; −1 for one that has no key."""
        best = [-1.0] * len(chunk_ids)
        if not len(chunk_ids):
            return best
        rows: list[int] = []
        owners: list[int] = []
        # plain loops: for some dozens of chunks they cost less than the array functions they would replace
        for owner, place in enumerate(self._chunk_ids.searchsorted(chunk_ids).tolist()):
            if place < len(self._chunk_ids) and self._chunk_ids[place] == chunk_ids[owner]:
                start, count = int(self._starts[place]), int(self._num_windows[place])
                rows += range(start, start + count)
                owners += [owner] * count
        if rows:
            for owner, score in zip(owners, (self._keys(self._order[rows]) @ key).tolist(), strict=True):
                best[owner] = max(best[owner], score)
        return best

    def part_scores(
        self, key: Float32[np.ndarray, " E"], chunk_ids: Int64[np.ndarray, " n"]
    ) -> Float32[np.ndarray, " n"]:
        """As `scores_of`, for many chunks, their ids rising."""
        scores = np.full(len(chunk_ids), -1, np.float32)
        here = np.flatnonzero(np.isin(chunk_ids, self._chunk_ids))
        if not len(here):
            return scores
        places = self._chunk_ids.searchsorted(chunk_ids[here])
        counts = self._num_windows[places]
        firsts = np.cumsum(counts) - counts
        rows = np.repeat(self._starts[places] - firsts, counts) + np.arange(counts.sum())
        scores[here] = np.maximum(np.maximum.reduceat(self._keys(self._order[rows]) @ key, firsts), -1)
        return scores

    def save(self, path: Path, *, generation: int, tag: str, commit: str = "") -> None:
        """Writes the index atomically.

        Raises:
            StorageError: the disk is full or refuses.
        """

        def stream(write: Callable[[bytes], int]) -> None:
            faiss.write_index(self._index, faiss.PyCallbackIOWriter(write))  # type: ignore[attr-defined]  # its stubs lack it

        parts: dict[str, Part] = {"labels": self._labels, "chunk_of_row": self._chunk_of_row, "faiss": stream}
        self._map_labels(mapped=False)  # a hash table has no fixed order, and equal indexes have equal files
        try:
            write_index_file(path, kind=_KIND, generation=generation, commit=commit, tag=tag, parts=parts)
        finally:
            self._map_labels()

    @classmethod
    def load(
        cls, path: Path, *, dim: int, tag: str, exact_limit: int = EXACT_LIMIT, commit_of: CommitOf = without_ids
    ) -> tuple["DenseIndex", int]:
        """Reads an index back, with the generation it was saved at.

        Raises:
            StaleIndexError: the file is missing, damaged, or made with another tag or of a commit that is not known.
        """
        file = IndexFile(path, kind=_KIND, tag=tag, commit_of=commit_of)
        try:
            index = cls(dim, exact_limit=exact_limit)
            index._labels = np.asarray(file.array("labels"), np.int64)
            index._chunk_of_row = np.asarray(file.array("chunk_of_row"), np.int64)
            # FAISS reads a damaged file without a word; the checksum has been compared before this line
            index._index = faiss.read_index(faiss.PyCallbackIOReader(file.read))  # type: ignore[attr-defined]  # its stubs lack it
        except RuntimeError as error:
            raise StaleIndexError("the index file is of another FAISS", given=path) from error
        finally:
            file.close()
        if index._index.d != dim or index._index.ntotal != index.num_keys:
            raise StaleIndexError("the index file belongs to something else", given=path)
        index._map_labels()
        index._refresh()
        return index, file.generation

    def _append(self, keys: Float32[np.ndarray, "n E"], owners: Int64[np.ndarray, " n"]) -> None:
        first = int(self._labels[-1]) + 1 if len(self._labels) else 0
        labels = np.arange(first, first + len(keys))
        keys = np.ascontiguousarray(keys, dtype=np.float32)
        if self.is_exact:
            self._index.add(keys)
        else:
            self._index.add_with_ids(keys, labels)
        self._labels = np.concatenate([self._labels, labels])
        self._chunk_of_row = np.concatenate([self._chunk_of_row, owners])

    def _turn_to_lists(self) -> None:
        faiss.omp_set_num_threads(os.cpu_count() or 1)
        keys = self._all_keys().astype(np.float32)
        num_lists = min(1 << round(np.log2(4 * np.sqrt(len(keys)))), 1 + len(keys) // _TRAINING_KEYS_PER_LIST)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(self._dim), self._dim, num_lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = _SEED
        index.cp.spherical = True
        index.nprobe = max(16, num_lists // 64)
        sample = np.random.default_rng(_SEED).permutation(len(keys))[: num_lists * _TRAINING_KEYS_PER_LIST]
        index.train(keys[np.sort(sample)])
        index.add_with_ids(keys, self._labels)
        self._index = index
        self._map_labels()

    def _map_labels(self, *, mapped: bool = True) -> None:
        if not self.is_exact:
            kind = faiss.DirectMap.Hashtable if mapped else faiss.DirectMap.NoMap  # type: ignore[attr-defined]  # its stubs lack it
            self._index.set_direct_map_type(kind)  # type: ignore[attr-defined]  # of inverted lists only

    def _all_keys(self) -> Float16[np.ndarray, "n E"]:
        codes = self._index.codes  # type: ignore[attr-defined]  # of the exact index only
        flat: UInt8[np.ndarray, " bytes"] = faiss.rev_swig_ptr(codes.data(), 2 * self.num_keys * self._dim)
        keys: Float16[np.ndarray, "n E"] = flat.view(np.float16).reshape(-1, self._dim)
        return keys

    def _keys(self, rows: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n E"]:
        if self.is_exact:
            keys: Float32[np.ndarray, "n E"] = self._all_keys()[rows].astype(np.float32)
        else:
            keys = self._index.reconstruct_batch(self._labels[rows])
        return keys

    def _refresh(self) -> None:
        self._order = np.argsort(self._chunk_of_row, kind="stable")
        self._chunk_ids, self._starts, self._num_windows = np.unique(
            self._chunk_of_row[self._order], return_index=True, return_counts=True
        )
        self._most_windows = int(self._num_windows.max(initial=1))


def _exact_index(dim: int) -> faiss.IndexScalarQuantizer:
    # FP16 halves the bytes that a search must read and errs by less than 3e-4 in a cosine
    index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    return index
