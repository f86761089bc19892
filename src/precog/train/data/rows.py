"""The prepared format: context chunks and the question rows that branch from them.

A prepared folder holds one ``.npy`` file per column and ``meta.json``. Every file is memory-mappable and sliced with
NumPy alone:

==================  ==================  ===============================================================
``context``         uint16 [C, T]       ``<s>`` and the chunk's tokens, zero-padded
``context_len``     int16 [C]           tokens of the chunk, ``<s>`` counted
``first_question``  int64 [C + 1]       questions of chunk c are rows first_question[c] … first_question[c+1]−1
``questions``       uint16 [Q, Tq]      ``<s>`` prompt answer ``</s>``, zero-padded
``prompt_len``      int16 [Q]           tokens before the answer, ``<s>`` counted
``row_len``         int16 [Q]           tokens of the row, ``</s>`` counted
``answer_start``    int16 [Q]           index of the answer's first token in the chunk's row of ``context``, or −1
``answer_len``      int16 [Q]           tokens of the answer; 0 where the chunk does not answer
``chunk``           int32 [Q]           the chunk a row belongs to
``kind``            uint8 [Q]           see :class:`Kind`
==================  ==================  ===============================================================

The answer's tokens are always ``context[chunk, answer_start : answer_start + answer_len]``: what grounded decoding
can emit. A row of kind ``UNANSWERABLE`` is ``<s>`` prompt ``</s>``. ``meta.json`` names the tokenizer by its checksum.
This module does not know where passages come from.
"""

import json
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError
from precog.text.tokenizer import MISTRAL_SHA256

__all__ = ["COLUMNS", "Ask", "Columns", "Kind", "Passage", "PreparedSet", "crc32_of", "merge_folders", "write_columns"]

FORMAT = 2
CONTEXT_TOKENS = 256
ROW_TOKENS = 48

Columns = dict[str, NDArray[np.integer]]
COLUMNS: Mapping[str, type[np.generic]] = {
    "context": np.uint16,
    "context_len": np.int16,
    "first_question": np.int64,
    "questions": np.uint16,
    "prompt_len": np.int16,
    "row_len": np.int16,
    "answer_start": np.int16,
    "answer_len": np.int16,
    "chunk": np.int32,
    "kind": np.uint8,
}
_PER_QUESTION = ("questions", "prompt_len", "row_len", "answer_start", "answer_len", "kind")


class Kind(IntEnum):
    """What a question row trains."""

    CLOZE = 0
    WH = 1
    SQUAD = 2
    UNANSWERABLE = 3
    KEY_VALUE = 4
    COPY = 5
    TABLE = 6
    DIALOGUE = 7


class Ask(NamedTuple):
    """A question and the characters of its passage that answer it; ``UNANSWERABLE`` ones start and stop at 0."""

    question: str
    start: int
    stop: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of at most one chunk with the questions asked of it."""

    text: str
    asks: tuple[Ask, ...]


def write_columns(folder: Path, columns: Columns, notes: Mapping[str, object]) -> None:
    """Write a prepared folder atomically: a sibling temporary folder, renamed when complete.

    Args:
        folder: where the columns go; an existing prepared folder is replaced.
        columns: every column of :data:`COLUMNS`.
        notes: JSON values kept in ``meta.json`` beside the counts and checksums.
    """
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True, mode=0o700)
    for name, dtype in COLUMNS.items():
        np.save(temporary / f"{name}.npy", np.ascontiguousarray(columns[name], dtype=dtype))
    _seal(temporary, folder, notes)


def merge_folders(parts: Sequence[Path], folder: Path, notes: Mapping[str, object]) -> None:
    """Concatenate prepared folders into one, a column at a time in bounded memory, fsync it, and remove the parts."""
    sets = [PreparedSet(part) for part in parts]
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True, mode=0o700)
    num_chunks, num_questions = sum(len(s) for s in sets), sum(s.num_questions for s in sets)
    for name, dtype in COLUMNS.items():
        tail = sets[0].columns[name].shape[1:]
        rows = num_chunks + 1 if name == "first_question" else num_questions
        rows = num_chunks if name.startswith("context") else rows
        out = np.lib.format.open_memmap(temporary / f"{name}.npy", mode="w+", dtype=dtype, shape=(rows, *tail))
        at, chunk_base, question_base = 0, 0, 0
        for part in sets:
            column = part.columns[name]
            if name == "first_question":
                out[at : at + len(part)] = column[:-1] + question_base
                at += len(part)
                out[at] = question_base + part.num_questions
            else:
                out[at : at + len(column)] = column + chunk_base if name == "chunk" else column
                at += len(column)
            chunk_base += len(part)
            question_base += part.num_questions
        out.flush()
        del out
        with (temporary / f"{name}.npy").open("rb") as file:
            os.fsync(file.fileno())
    _seal(temporary, folder, notes)
    for path in parts:
        shutil.rmtree(path)


def _seal(temporary: Path, folder: Path, notes: Mapping[str, object]) -> None:
    checksums, shapes = {}, {}
    for name in COLUMNS:
        path = temporary / f"{name}.npy"
        path.chmod(0o600)
        checksums[name] = crc32_of(path)
        shapes[name] = list(np.load(path, mmap_mode="r").shape)
    meta = {
        "format": FORMAT,
        "tokenizer_sha256": MISTRAL_SHA256,
        "context_tokens": shapes["context"][1],
        "row_tokens": shapes["questions"][1],
        "shapes": shapes,
        "crc32": checksums,
        "notes": dict(notes),
    }
    with (temporary / "meta.json").open("w", encoding="utf-8") as file:
        json.dump(meta, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def crc32_of(path: Path) -> int:
    """CRC32 of a file's bytes."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            value = zlib.crc32(block, value)
    return value


class PreparedSet:
    """A prepared folder, memory-mapped.

    Raises:
        TrainingError: the folder is missing, of another format, incomplete or (``verify``) damaged.
    """

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        try:
            meta = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TrainingError(
                "this is not a folder of prepared training data",
                given=self.folder,
                expected="a folder with meta.json",
                hint="make one with `precog train-data`",
            ) from error
        if meta.get("format") != FORMAT:
            raise TrainingError(
                "prepared training data of another format",
                given=meta.get("format"),
                expected=FORMAT,
                hint="prepare it again",
            )
        if meta.get("tokenizer_sha256") != MISTRAL_SHA256:
            raise TrainingError(
                "the prepared data was made with another tokenizer",
                given=f"{self.folder}: {meta.get('tokenizer_sha256')}",
                expected=MISTRAL_SHA256,
                hint="prepare it again",
            )
        self.notes: dict[str, object] = meta["notes"]
        self.columns: Columns = {}
        for name, dtype in COLUMNS.items():
            path = self.folder / f"{name}.npy"
            try:
                column = np.load(path, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError) as error:
                raise TrainingError("a column of the prepared data cannot be read", given=path) from error
            if list(column.shape) != meta["shapes"][name] or column.dtype != dtype:
                raise TrainingError(
                    "a column of the prepared data has another shape", given=column.shape, expected=meta["shapes"][name]
                )
            if verify and crc32_of(path) != meta["crc32"][name]:
                raise TrainingError("prepared data is damaged", given=path, expected=f"crc32 {meta['crc32'][name]}")
            self.columns[name] = column
        if not len(self):
            raise TrainingError("a prepared folder holds no chunk", given=self.folder)

    def __len__(self) -> int:
        return len(self.columns["context_len"])

    @property
    def num_questions(self) -> int:
        """Question rows of the whole set."""
        return len(self.columns["row_len"])

    @property
    def widths(self) -> tuple[int, int]:
        """Tokens of a chunk's row and of a question's row, padding counted."""
        return self.columns["context"].shape[1], self.columns["questions"].shape[1]

    def questions_of(self, chunk: int) -> range:
        """Row indices of a chunk's questions."""
        first = self.columns["first_question"]
        return range(int(first[chunk]), int(first[chunk + 1]))
