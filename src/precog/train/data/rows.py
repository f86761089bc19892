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
``kind``            uint8 [Q]           see :class:`~precog.questions.passage.Kind`
==================  ==================  ===============================================================

The answer's tokens are always ``context[chunk, answer_start : answer_start + answer_len]``: what grounded decoding
can emit. A row of kind ``UNANSWERABLE`` is ``<s>`` prompt ``</s>``. ``meta.json`` names the tokenizer by its checksum.
This module does not know where passages come from.
"""

import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError
from precog.questions.passage import Kind
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.data.arrays import mapped, read_meta, write_array, write_meta

__all__ = ["COLUMNS", "Columns", "PreparedSet", "crc32_of", "merge_folders", "write_columns"]

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
_PER_CHUNK = ("context", "context_len", "first_question")


def write_columns(folder: Path, columns: Columns, notes: Mapping[str, object]) -> None:
    """Write a prepared folder atomically: a sibling temporary folder, renamed when complete.

    Args:
        folder: where the columns go; an existing prepared folder is replaced.
        columns: every column of :data:`COLUMNS`.
        notes: JSON values kept in ``meta.json`` beside the counts and checksums.

    Raises:
        StorageError: the disk is full or refuses.
    """
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True, mode=0o700)
    for name, dtype in COLUMNS.items():
        column = columns[name]
        write_array(temporary / f"{name}.npy", dtype, column.shape, [column])
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
        write_array(temporary / f"{name}.npy", dtype, (rows, *tail), _numbered_on(sets, name))
    _seal(temporary, folder, notes)
    for path in parts:
        shutil.rmtree(path)


def _numbered_on(sets: Sequence["PreparedSet"], name: str) -> Iterator[NDArray[np.integer]]:
    """A column of several sets, a set at a time; chunks and questions are numbered on."""
    chunk_base, question_base = 0, 0
    for part in sets:
        column = part.columns[name]
        if name == "first_question":
            yield column[:-1] + question_base
        elif name == "chunk":
            yield column + chunk_base
        else:
            yield column
        chunk_base += len(part)
        question_base += part.num_questions
    if name == "first_question":
        yield np.array([question_base])


def _seal(temporary: Path, folder: Path, notes: Mapping[str, object]) -> None:
    checksums, shapes = {}, {}
    for name in COLUMNS:
        path = temporary / f"{name}.npy"
        path.chmod(0o600)
        checksums[name] = crc32_of(path)
        shapes[name] = list(mapped(path).shape)
    meta: dict[str, object] = {
        "format": FORMAT,
        "tokenizer_sha256": MISTRAL_SHA256,
        "context_tokens": shapes["context"][1],
        "row_tokens": shapes["questions"][1],
        "shapes": shapes,
        "crc32": checksums,
        "notes": dict(notes),
    }
    write_meta(temporary, meta)
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

    Args:
        folder: the set.
        verify: compare every column with its checksum, too.

    Raises:
        TrainingError: the folder is missing, of another format, incomplete, or holds rows that cannot be
            (``verify``: that are not those written).
    """

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        meta = read_meta(self.folder, "a folder of prepared training data", "make one with `precog train-data`")
        if meta.get("format") != FORMAT:
            raise TrainingError(
                "prepared training data of another format",
                given=f"{self.folder}: {meta.get('format')}",
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
        notes, shapes, checksums = (meta.get(name) for name in ("notes", "shapes", "crc32"))
        if not (isinstance(notes, dict) and isinstance(shapes, dict) and isinstance(checksums, dict)):
            raise TrainingError(
                "meta.json of a folder of prepared training data is damaged",
                given=self.folder,
                expected="objects under notes, shapes and crc32",
                hint="prepare it again",
            )
        self.notes: dict[str, object] = notes
        self.columns: Columns = {}
        for name, dtype in COLUMNS.items():
            path = self.folder / f"{name}.npy"
            column = mapped(path)
            if list(column.shape) != shapes.get(name) or column.dtype != dtype:
                raise TrainingError(
                    "a column of the prepared data has another shape",
                    given=f"{path}: {column.dtype} {list(column.shape)}",
                    expected=f"{np.dtype(dtype)} {shapes.get(name)}",
                )
            if verify and crc32_of(path) != checksums.get(name):
                raise TrainingError(
                    "prepared data is damaged",
                    given=path,
                    expected=f"crc32 {checksums.get(name)}",
                    hint="prepare it again",
                )
            self.columns[name] = cast("NDArray[np.integer]", column)
        if fault := _fault(self.columns):
            raise TrainingError(
                "prepared data holds what cannot be", given=f"{self.folder}: {fault}", hint="prepare it again"
            )
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


def _fault(columns: Columns) -> str:
    """What is wrong with the columns' values, the first row that it is wrong with; empty where nothing is."""
    if any(columns[name].ndim != (2 if name in ("context", "questions") else 1) for name in COLUMNS):
        return "columns of other dimensions"
    num_chunks, num_questions = len(columns["context"]), len(columns["questions"])
    for name, column in columns.items():
        rows = num_chunks + (name == "first_question") if name in _PER_CHUNK else num_questions
        if len(column) != rows:
            return f"{len(column)} rows of {name}, {rows} expected"
    first = columns["first_question"]
    counts = np.diff(first)
    if first[0] or first[-1] != num_questions or (counts < 1).any():
        return "first_question does not rise from 0 to the number of questions"
    chunk = columns["chunk"]
    if not np.array_equal(chunk, np.repeat(np.arange(num_chunks), counts)):
        return "chunk and first_question contradict each other"
    context_len = columns["context_len"]
    prompt_len, row_len, start, length = (
        columns[name].astype(np.int32) for name in ("prompt_len", "row_len", "answer_start", "answer_len")
    )
    is_unanswerable = columns["kind"] == Kind.UNANSWERABLE
    for name, is_sound in (
        ("context_len", (context_len >= 1) & (context_len <= columns["context"].shape[1])),
        ("row_len", (row_len >= 1) & (row_len <= columns["questions"].shape[1])),
        ("prompt_len", (prompt_len >= 1) & (prompt_len < row_len)),
        ("kind", columns["kind"] <= max(Kind)),
        ("answer_len", (length == row_len - prompt_len - 1) & ((length == 0) | ~is_unanswerable)),
        ("answer_start", (start == -1) | ((start >= 0) & (start + length <= context_len[chunk]))),
    ):
        if not is_sound.all():
            row = int(np.argmin(is_sound))
            return f"{name} {columns[name][row]} in row {row}"
    return ""
