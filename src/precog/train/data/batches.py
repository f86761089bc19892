"""Batches of context chunks with question rows, and of packed tokens, as NumPy arrays.

A batch is a function of the seed, the step and the rank alone: resuming at a step needs no stored state, and the
global batch is the same set of chunks whatever the number of ranks. Indexing is vectorised; nothing here knows torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError
from precog.train.data.order import SharedOrder
from precog.train.data.rows import PreparedSet
from precog.train.data.shards import TokenStream

__all__ = ["Batch", "MixtureEntry", "PackedTokens", "QuestionBatches", "TokenBatch"]


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

    Args:
        mixture: the sets and their shares.
        num_chunks: B, chunks of a rank's batch.
        num_questions: Q, rows per chunk.
        seed: source of every choice.
        rank: this process's number.
        world: number of processes.

    Raises:
        TrainingError: an empty mixture, a share that is not positive, or sets whose rows have other widths.
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
        if not mixture:
            raise TrainingError("the data mixture cannot be used", given="no set", expected="at least one set")
        self._sets = [entry.rows for entry in mixture]
        widths = {entry.rows.widths: str(entry.rows.folder) for entry in mixture}
        if len(widths) > 1:
            raise TrainingError(
                "sets of different widths cannot be mixed",
                given="; ".join(f"{folder}: context {w[0]}, row {w[1]}" for w, folder in widths.items()),
                expected="the same context_tokens and row_tokens in all",
                hint="prepare them again together",
            )
        self._order = SharedOrder(
            [len(rows) for rows in self._sets], [entry.weight for entry in mixture], num_chunks * world, seed=seed
        )
        self._num_questions = num_questions
        self._num_keys = max(num_questions, *(int(np.diff(r.columns["first_question"]).max()) for r in self._sets))
        self._seed, self._rank, self._world = seed, rank, world

    def batch(self, step: int) -> Batch:
        """The rank's batch of a step."""
        source, chunk = self._order.step(step)
        # a chunk's questions are drawn by its place in the global batch, whatever rank it falls to
        keys = np.random.default_rng((self._seed, step, 1)).random((len(chunk), self._num_keys))
        place = np.arange(self._rank, len(chunk), self._world)
        return self._gather(source[place], chunk[place], keys[place])

    def describe(self, step: int) -> list[str]:
        """Set and number of the rank's chunks of a step, for a person."""
        source, chunk = (places[self._rank :: self._world].tolist() for places in self._order.step(step))
        return [f"{self._sets[s].folder.name}, chunk {c}" for s, c in zip(source, chunk, strict=True)]

    def _gather(self, source: NDArray[np.int64], chunk: NDArray[np.int64], keys: NDArray[np.float64]) -> Batch:
        rows_per_chunk = self._num_questions
        num_chunks = len(chunk)
        first = np.empty(num_chunks, dtype=np.int64)
        available = np.empty(num_chunks, dtype=np.int64)
        members = [np.flatnonzero(source == s) for s in range(len(self._sets))]
        for rows, at in zip(self._sets, members, strict=True):
            offsets = rows.columns["first_question"]
            first[at] = offsets[chunk[at]]
            available[at] = offsets[chunk[at] + 1] - first[at]
        keys = np.where(np.arange(keys.shape[1]) < available[:, None], keys, 2.0)
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


class TokenBatch(TypedDict):
    """``tokens`` int32 [B, T + 1] and ``reset`` bool [B, T + 1], True where a document starts.

    A document's segments are opened by ``<s>``, too, without a reset.
    """

    tokens: NDArray[np.int32]
    reset: NDArray[np.bool_]


class PackedTokens:
    """Language-modelling windows of one or more token streams, cut without regard to documents.

    A window may begin within a document; ``reset`` is True exactly where one starts. Every window of a shard is seen
    once per epoch, shifted by another offset in every epoch.

    Args:
        streams: token streams, or their folders.
        num_rows: B, windows of a rank's batch.
        num_tokens: T; windows hold T + 1 tokens.
        shares: relative shares of the streams in the windows; their sizes when None.
        seed: order of the windows.
        rank: this process's number.
        world: number of processes.

    Raises:
        TrainingError: a stream is missing, damaged or of another tokenizer, or holds no full window; bad shares.
    """

    def __init__(
        self,
        streams: Sequence[Path | TokenStream],
        num_rows: int,
        num_tokens: int,
        *,
        seed: int,
        shares: Sequence[int | float] | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._streams = [s if isinstance(s, TokenStream) else TokenStream(s) for s in streams]
        self._edges = []
        for stream in self._streams:
            windows = [max(0, (len(shard.tokens) - 1) // num_tokens) for shard in stream.shards]
            self._edges.append(np.concatenate([[0], np.cumsum(windows)]).astype(np.int64))
            if not self._edges[-1][-1]:
                raise TrainingError(
                    "a token stream holds no full window",
                    given=f"{stream.folder}: {stream.num_tokens} tokens",
                    expected=f"{num_tokens + 1} tokens in a shard",
                )
        sizes = [int(edges[-1]) for edges in self._edges]
        self._num_windows = sum(sizes)
        self._order = SharedOrder(sizes, sizes if shares is None else shares, num_rows * world, seed=seed)
        self._num_rows, self._num_tokens = num_rows, num_tokens
        self._seed, self._rank, self._world = seed, rank, world

    def __len__(self) -> int:
        return self._num_windows

    def batch(self, step: int) -> TokenBatch:
        """The rank's windows of a step."""
        tokens = np.empty((self._num_rows, self._num_tokens + 1), dtype=np.int32)
        reset = np.zeros(tokens.shape, dtype=np.bool_)
        for row, (number, index, begin) in enumerate(self._windows(step)):
            shard = self._streams[number].shards[index]
            end = begin + self._num_tokens + 1
            tokens[row] = shard.tokens[begin:end]
            first, last = np.searchsorted(shard.documents, (begin, end))
            reset[row, shard.documents[first:last] - begin] = True
        return {"tokens": tokens, "reset": reset}

    def describe(self, step: int) -> list[str]:
        """Stream, shard and first token of the rank's windows of a step, for a person."""
        return [
            f"{self._streams[number].folder.name}, shard {index}, from token {begin}"
            for number, index, begin in self._windows(step)
        ]

    def _windows(self, step: int) -> Iterator[tuple[int, int, int]]:
        """Stream, shard and first token of each."""
        source, window = (places[self._rank :: self._world].tolist() for places in self._order.step(step))
        for number, at in zip(source, window, strict=True):
            edges = self._edges[number]
            index = int(np.searchsorted(edges, at, side="right")) - 1
            epoch = self._order.epoch(number, step)
            shift = int(np.random.default_rng((self._seed, number, epoch, 11)).integers(self._num_tokens))
            begin = (at - int(edges[index])) * self._num_tokens + shift
            yield number, index, min(begin, len(self._streams[number].shards[index].tokens) - self._num_tokens - 1)
