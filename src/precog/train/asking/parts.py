"""Finished slices on disk, and the prepared set they become: asked questions among the made ones of the same chunks.

A part is one ``.npz`` file that appears whole or not at all. It holds the chunks that were asked about, by their
numbers in the set, and the questions that stayed; the chunks' tokens stay where they are.
"""

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from precog.errors import StorageError, TrainingError
from precog.questions.passage import Kind
from precog.train.asking.write import REFUSALS, Asked
from precog.train.data.rows import Columns, PreparedSet

ASKED_COPIES = 2
ROWS_PER_CHUNK = 8
_COLUMNS = tuple(entry.name for entry in fields(Asked) if entry.name != "refused")
_DAMAGE = (OSError, ValueError, KeyError, EOFError, BadZipFile)
_PER_ROW = ("questions", "prompt_len", "row_len", "answer_start", "answer_len", "kind")


def write_part(path: Path, chunks: NDArray[np.int64], asked: Asked) -> None:
    """Write what a slice of chunks has become, atomically.

    Raises:
        StorageError: the disk is full or refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    columns = {name: getattr(asked, name) for name in _COLUMNS}
    counts = np.array([asked.refused.get(reason, 0) for reason in REFUSALS], dtype=np.int64)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with temporary.open("wb") as file:
            np.savez(file, chunks=chunks, refused=counts, **columns)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o600)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError("questions could not be written", given=path, hint=error.strerror) from error


def read_part(path: Path) -> Asked:
    """The questions of a part.

    Raises:
        TrainingError: it is damaged.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            refused = dict(zip(REFUSALS, data["refused"].tolist(), strict=True))
            return Asked(**{name: data[name] for name in _COLUMNS}, refused=refused)
    except _DAMAGE as error:
        raise TrainingError("a part of the questions is damaged", given=path, hint="remove it and go on") from error


def is_written(path: Path, chunks: NDArray[np.int64]) -> bool:
    """Whether a part is there and was asked about exactly these chunks."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            return bool(np.array_equal(data["chunks"], chunks))
    except _DAMAGE:
        return False


def joined(parts: Sequence[Asked]) -> Asked:
    """The questions of several parts, by chunk."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    order = np.argsort(columns["chunk"], kind="stable")
    refused = {reason: sum(part.refused.get(reason, 0) for part in parts) for reason in REFUSALS}
    return Asked(**{name: column[order] for name, column in columns.items()}, refused=refused)


def columns_of(prepared: PreparedSet, asked: Asked, seed: int, plain: bool = False) -> Columns:
    """The columns of a prepared set: every chunk that keeps a question, with its questions.

    Where a chunk has few questions, a batch that wants more repeats them. So every asked question stands there twice,
    and made ones of the same chunk fill up to eight rows, those with an interrogative first.

    Args:
        prepared: that was asked about.
        asked: at least one question, by rising chunk.
        seed: of the choice among made questions.
        plain: the asked questions alone, once.
    """
    chunks, own = np.unique(asked.chunk, return_counts=True)
    place = np.searchsorted(chunks, asked.chunk)
    copies = 1 if plain else ASKED_COPIES
    mine = {name: getattr(asked, name) for name in _PER_ROW if name != "kind"}
    mine["kind"] = np.full(len(asked), int(Kind.WH), dtype=np.uint8)
    quota = np.zeros_like(own) if plain else np.maximum(0, ROWS_PER_CHUNK - copies * own)
    owner, row = _made(prepared, chunks, quota, np.random.default_rng(seed))
    owners = np.concatenate((*[place] * copies, owner))
    order = np.argsort(owners, kind="stable")
    columns: Columns = {
        name: np.concatenate((*[mine[name]] * copies, prepared.columns[name][row]))[order] for name in _PER_ROW
    }
    counts = np.bincount(owners, minlength=len(chunks))
    columns["context"] = prepared.columns["context"][chunks]
    columns["context_len"] = prepared.columns["context_len"][chunks]
    columns["first_question"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns["chunk"] = owners[order].astype(np.int32)
    return columns


def _made(
    prepared: PreparedSet, chunks: NDArray[np.int64], quota: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Up to ``quota`` made rows of each chunk: place of the chunk in ``chunks``, and row."""
    offsets = prepared.columns["first_question"]
    available = offsets[chunks + 1] - offsets[chunks]
    owner = np.repeat(np.arange(len(chunks)), available)
    row = np.repeat(offsets[chunks] - np.cumsum(available) + available, available) + np.arange(len(owner))
    is_wh = prepared.columns["kind"][row] == int(Kind.WH)
    order = np.lexsort((rng.random(len(row)), ~is_wh, owner))
    owner, row = owner[order], row[order]
    chosen = np.arange(len(owner)) - np.searchsorted(owner, owner) < quota[owner]
    return owner[chosen], row[chosen]
