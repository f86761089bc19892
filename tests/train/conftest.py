"""Small prepared data: key–value chunks with their questions, and a stream of short documents."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

WIDTH, ROW = 17, 4


def write_pairs(folder: Path, seed: int, chunks: int = 24, vocabulary: int = 64) -> None:
    """Chunks ``<s> k v k v …`` and rows ``<s> k v </s>``."""
    from precog.train.data.rows import write_columns

    rng = np.random.default_rng(seed)
    context = rng.integers(10, vocabulary, (chunks, WIDTH))
    context[:, 0] = 1
    owner = np.repeat(np.arange(chunks), 2)
    place = rng.integers(0, WIDTH // 2, len(owner)) * 2 + 1
    questions = np.zeros((len(owner), ROW), np.int64)
    questions[:, 0], questions[:, 3] = 1, 2
    questions[:, 1], questions[:, 2] = context[owner, place], context[owner, place + 1]
    ones = np.ones(len(owner), np.int64)
    columns = {
        "context": context, "context_len": np.full(chunks, WIDTH), "first_question": np.arange(chunks + 1) * 2,
        "questions": questions, "prompt_len": 2 * ones, "row_len": 4 * ones, "answer_start": place + 1,
        "answer_len": ones, "chunk": owner, "kind": 4 * ones,
    }  # fmt: skip
    write_columns(folder, columns, {})


def write_stream(folder: Path, seed: int, documents: int = 12, vocabulary: int = 64) -> None:
    """Documents of 40 tokens in two segments, each opened by ``<s>``."""
    from precog.train.data.shards import Shard, merge_shards, write_shard

    tokens = np.random.default_rng(seed).integers(10, vocabulary, (documents, 40)).astype(np.uint16)
    tokens[:, ::20] = 1
    parts = folder.with_name(f"{folder.name}.parts")
    write_shard(parts, "00000", Shard(tokens.reshape(-1), np.arange(documents) * 40))
    merge_shards([parts / "00000.npy"], folder, {})


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A folder of prepared data with one set and one stream, and others held out."""
    folder = tmp_path / "prepared"
    write_pairs(folder / "train" / "pairs", 0)
    write_pairs(folder / "val" / "pairs", 1, chunks=8)
    write_stream(folder / "stream" / "train" / "text", 2)
    write_stream(folder / "stream" / "val" / "text", 3, documents=4)
    return folder


@pytest.fixture
def make_pairs() -> Callable[..., None]:
    """Writes another set."""
    return write_pairs
