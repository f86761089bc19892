"""Batches of context chunks with question rows, and of packed tokens, as NumPy arrays.

A batch is a function of the seed, the step and the rank alone: resuming at a step needs no stored state, and the
global batch is the same set of chunks whatever the number of ranks. Indexing is vectorised; nothing here knows torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError
from precog.train.data.rows import Kind, PreparedSet

__all__ = ["Batch", "MixtureEntry", "PackedTokens", "QuestionBatches", "TokenBatch", "with_unanswerable"]

_BOUNDARY_ID = 1


class Batch(TypedDict):
    """B chunks and B·Q rows; row r asks of chunk ``owner[r]`` of this batch.

    ``context`` int32 [B, T] · ``context_len`` int32 [B] · ``questions`` int32 [B·Q, Tq] · ``prompt_len``, ``row_len``,
    ``answer_start`` int32 [B·Q] · ``owner`` int64 [B·Q] · ``kind`` uint8 [B·Q] · ``valid`` bool [B·Q], False where a
    chunk with fewer than Q questions repeats one · ``source`` int64 [B], the mixture entry a chunk came from.
    """

    context: NDArray[np.int32]
    context_len: NDArray[np.int32]
    questions: NDArray[np.int32]
    prompt_len: NDArray[np.int32]
    row_len: NDArray[np.int32]
    answer_start: NDArray[np.int32]
    owner: NDArray[np.int64]
    kind: NDArray[np.uint8]
    valid: NDArray[np.bool_]
    source: NDArray[np.int64]


@dataclass(frozen=True)
class MixtureEntry:
    """A prepared set and its share of the chunks; shares are normalised over the mixture."""

    rows: PreparedSet
    weight: float


class QuestionBatches:
    """A weighted mixture of prepared sets, cut into steps.

    Every set is walked in an order of its own, a fresh permutation per epoch. With fractional shares a chunk at the
    edge of two steps may appear in both.

    Args:
        mixture: the sets and their shares.
        num_chunks: B, chunks of a rank's batch.
        num_questions: Q, rows per chunk.
        seed: source of every choice.
        rank: this process's number.
        world: number of processes.

    Raises:
        TrainingError: an empty mixture, or a share that is not positive.
    """

    def __init__(
        self,
        mixture: Sequence[MixtureEntry],
        num_chunks: int,
        num_questions: int,
        *,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        weights = np.array([entry.weight for entry in mixture], dtype=np.float64)
        if not len(weights) or not (np.isfinite(weights).all() and (weights > 0).all()):
            raise TrainingError(
                "the data mixture cannot be used",
                given=weights.tolist(),
                expected="at least one set, every share above 0",
            )
        self._sets = [entry.rows for entry in mixture]
        self._shares = weights / weights.sum()
        self._num_chunks, self._num_questions = num_chunks, num_questions
        self._seed, self._rank, self._world = seed, rank, world

    def batch(self, step: int) -> Batch:
        """The rank's batch of a step."""
        rng = np.random.default_rng((self._seed, step, 0))
        total = self._num_chunks * self._world
        edges = np.floor(np.concatenate([[0.0], np.cumsum(self._shares)]) * total + rng.random()).astype(np.int64)
        counts = np.diff(np.clip(edges - edges[0], 0, total))
        counts[-1] += total - counts.sum()
        source = np.repeat(np.arange(len(counts)), counts)
        position = np.concatenate([
            self._order(s, int(step * total * share), int(count))
            for s, (share, count) in enumerate(zip(self._shares, counts, strict=True))
        ])  # fmt: skip
        shuffle = rng.permutation(total)[self._rank :: self._world]
        return self._gather(
            source[shuffle], position[shuffle], np.random.default_rng((self._seed, step, 1 + self._rank))
        )

    def _order(self, source: int, first: int, count: int) -> NDArray[np.int64]:
        """Chunks at places ``first … first + count − 1`` of a set's endless order: an affine permutation per epoch."""
        size = len(self._sets[source])
        place = np.arange(first, first + count, dtype=np.int64)
        epoch, place = place // size, place % size
        out = np.empty(count, dtype=np.int64)
        for number in np.unique(epoch):
            rng = np.random.default_rng((self._seed, source, int(number), 7))
            step = int(rng.integers(size // 3 + 1, size + 1))
            while np.gcd(step, size) != 1:
                step += 1
            here = epoch == number
            out[here] = (place[here] * step + int(rng.integers(size))) % size
        return out

    def _gather(self, source: NDArray[np.int64], chunk: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        rows_per_chunk = self._num_questions
        num_chunks = len(chunk)
        first = np.empty(num_chunks, dtype=np.int64)
        available = np.empty(num_chunks, dtype=np.int64)
        members = [np.flatnonzero(source == s) for s in range(len(self._sets))]
        for rows, at in zip(self._sets, members, strict=True):
            offsets = rows.columns["first_question"]
            first[at] = offsets[chunk[at]]
            available[at] = offsets[chunk[at] + 1] - first[at]
        keys = rng.random((num_chunks, max(int(available.max()), rows_per_chunk)))
        keys[np.arange(keys.shape[1]) >= available[:, None]] = 2.0
        pick = np.argsort(keys, axis=1)[:, :rows_per_chunk]
        slot = np.broadcast_to(np.arange(rows_per_chunk), pick.shape)
        valid = slot < available[:, None]
        pick = np.take_along_axis(pick, np.where(valid, slot, slot % available[:, None]), axis=1)
        row = (first[:, None] + pick).reshape(-1)
        row_source = np.repeat(source, rows_per_chunk)
        shapes = self._sets[0].columns
        out: Batch = {
            "context": np.empty((num_chunks, shapes["context"].shape[1]), dtype=np.int32),
            "context_len": np.empty(num_chunks, dtype=np.int32),
            "questions": np.empty((len(row), shapes["questions"].shape[1]), dtype=np.int32),
            "prompt_len": np.empty(len(row), dtype=np.int32),
            "row_len": np.empty(len(row), dtype=np.int32),
            "answer_start": np.empty(len(row), dtype=np.int32),
            "owner": np.repeat(np.arange(num_chunks), rows_per_chunk),
            "kind": np.empty(len(row), dtype=np.uint8),
            "valid": valid.reshape(-1),
            "source": source,
        }
        for s, (rows, at) in enumerate(zip(self._sets, members, strict=True)):
            if not len(at):
                continue
            out["context"][at] = rows.columns["context"][chunk[at]]
            out["context_len"][at] = rows.columns["context_len"][chunk[at]]
            row_at = np.flatnonzero(row_source == s)
            out["questions"][row_at] = rows.columns["questions"][row[row_at]]
            out["prompt_len"][row_at] = rows.columns["prompt_len"][row[row_at]]
            out["row_len"][row_at] = rows.columns["row_len"][row[row_at]]
            out["answer_start"][row_at] = rows.columns["answer_start"][row[row_at]]
            out["kind"][row_at] = rows.columns["kind"][row[row_at]]
        return out


def with_unanswerable(batch: Batch, share: float, rng: np.random.Generator) -> Batch:
    """A batch in which a share of the rows is asked of another chunk: right question, wrong paragraph.

    Those rows have ``kind`` UNANSWERABLE and ``answer_start`` −1; their answer tokens are left for the caller to mask.
    """
    num_chunks = len(batch["context_len"])
    moved = rng.random(len(batch["owner"])) < share if num_chunks > 1 else np.zeros(len(batch["owner"]), dtype=np.bool_)
    shift = rng.integers(1, max(2, num_chunks), size=len(moved))
    out = batch.copy()
    out["owner"] = np.where(moved, (batch["owner"] + shift) % num_chunks, batch["owner"])
    out["answer_start"] = np.where(moved, -1, batch["answer_start"]).astype(np.int32)
    out["kind"] = np.where(moved, int(Kind.UNANSWERABLE), batch["kind"]).astype(np.uint8)
    return out


class TokenBatch(TypedDict):
    """``tokens`` int32 [B, T + 1] and ``reset`` bool [B, T + 1], True where a document's ``<s>`` stands."""

    tokens: NDArray[np.int32]
    reset: NDArray[np.bool_]


class PackedTokens:
    """Language-modelling windows of one or more token streams in which ``<s>`` opens every document.

    Args:
        paths: uint16 ``.npy`` streams.
        num_rows: B, windows of a rank's batch.
        num_tokens: T; windows hold T + 1 tokens.
        seed: order of the windows.
        rank: this process's number.
        world: number of processes.

    Raises:
        TrainingError: a stream is missing, of another type, or shorter than a window.
    """

    def __init__(
        self, paths: Sequence[Path], num_rows: int, num_tokens: int, *, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self._streams = []
        for path in paths:
            try:
                stream = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError) as error:
                raise TrainingError("a token stream cannot be read", given=path) from error
            if stream.dtype != np.uint16 or stream.ndim != 1:
                raise TrainingError("a token stream has another type", given=stream.dtype, expected="uint16 [tokens]")
            self._streams.append(stream)
        windows = [max(0, (len(s) - 1) // num_tokens) for s in self._streams]
        self._edges = np.concatenate([[0], np.cumsum(windows)]).astype(np.int64)
        if not self._edges[-1]:
            raise TrainingError(
                "the token streams hold no full window", given=sum(map(len, self._streams)), expected=num_tokens + 1
            )
        self._num_rows, self._num_tokens = num_rows, num_tokens
        self._seed, self._rank, self._world = seed, rank, world

    def __len__(self) -> int:
        return int(self._edges[-1])

    def batch(self, step: int) -> TokenBatch:
        """The rank's windows of a step; each is seen once per epoch, shifted by another offset in every epoch."""
        size = len(self)
        place = step * self._num_rows * self._world + self._rank * self._num_rows + np.arange(self._num_rows)
        rows = np.empty((self._num_rows, self._num_tokens + 1), dtype=np.int32)
        for row, (epoch, at) in enumerate(zip(place // size, place % size, strict=True)):
            rng = np.random.default_rng((self._seed, int(epoch), 11))
            stride = int(rng.integers(size // 3 + 1, size + 1))
            while np.gcd(stride, size) != 1:
                stride += 1
            window = int((at * stride + int(rng.integers(size))) % size)
            shift = int(rng.integers(self._num_tokens))
            index = int(np.searchsorted(self._edges, window, side="right")) - 1
            stream = self._streams[index]
            begin = min(
                (window - int(self._edges[index])) * self._num_tokens + shift, len(stream) - self._num_tokens - 1
            )
            rows[row] = stream[begin : begin + self._num_tokens + 1]
        return {"tokens": rows, "reset": rows == _BOUNDARY_ID}
