"""``.npy`` files and ``meta.json`` of prepared data: written through to the disk or not at all, read with suspicion."""

import json
import os
import tokenize
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precog.errors import StorageError, TrainingError

__all__ = ["mapped", "read_meta", "write_array", "write_meta"]

_DAMAGE = (OSError, EOFError, ValueError, TypeError, OverflowError, MemoryError, RecursionError, tokenize.TokenError)


def write_array(
    path: Path, dtype: type[np.generic], shape: tuple[int, ...], blocks: Iterable[NDArray[np.generic]]
) -> None:
    """Write one array from blocks along its first axis, and wait until the disk has it.

    Raises:
        StorageError: the disk is full, refuses, or took less than was written.
    """
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    try:
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype=dtype).data)
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size - begin
    except OSError as error:
        raise StorageError("the prepared data cannot be written", given=path, hint=str(error)) from error
    expected = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size != expected:
        raise StorageError("a file was cut short as it was written", given=f"{path}: {size} bytes", expected=expected)


def mapped(path: Path) -> NDArray[np.generic]:
    """An array's file as memory.

    Raises:
        TrainingError: it is missing, cut short or no array.
    """
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except _DAMAGE as error:
        raise TrainingError("an array cannot be read: missing, cut short or damaged", given=path) from error


def write_meta(folder: Path, meta: dict[str, object]) -> None:
    """Write ``meta.json``.

    Raises:
        StorageError: the disk is full or refuses.
    """
    path = folder / "meta.json"
    try:
        with path.open("w", encoding="utf-8") as file:
            json.dump(meta, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError("the prepared data cannot be written", given=path, hint=str(error)) from error


def read_meta(folder: Path, what: str, hint: str) -> dict[str, object]:
    """The object in ``meta.json``.

    Args:
        folder: that holds it.
        what: the folder is expected to be.
        hint: how to make one.

    Raises:
        TrainingError: it is missing or no JSON object.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        expected = "a folder with meta.json"
        raise TrainingError(f"this is not {what}", given=folder, expected=expected, hint=hint) from error
    if not isinstance(meta, dict):
        given = f"{folder}: {type(meta).__name__}"
        raise TrainingError(f"meta.json of {what} is damaged", given=given, expected="an object", hint=hint)
    return meta
