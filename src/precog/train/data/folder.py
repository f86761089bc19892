"""A folder of raw files prepared once: texts, conversations and SQuAD files told apart by what they hold."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from precog.errors import InputError, StorageError
from precog.train.data.chat import is_chat
from precog.train.data.documents import check_form, data_files, form, open_lines, passed_over, read_documents
from precog.train.data.jobs import HoldOut
from precog.train.data.prepare import PrepareOptions, prepare
from precog.train.data.rows import CONTEXT_TOKENS, ROW_TOKENS

__all__ = ["FileKind", "is_prepared", "kind_of", "prepare_folder"]

FileKind = Literal["text", "chat", "squad"]
_RECIPE = 1  # raised when the rules change so much that a prepared folder should not be used again
_FEW, _MANY = 20, 2000
_EVERY = 20
_SLICE_BYTES = 4 << 20
_HEAD_CHARS = 1 << 20


def is_prepared(folder: Path) -> bool:
    """Whether a folder holds prepared sets or token streams, as `precog train-data` writes them."""
    return any(folder.glob("train/*/meta.json")) or any(folder.glob("stream/train/*/meta.json"))


def kind_of(path: Path) -> FileKind:
    """What a file holds, from its first line.

    Raises:
        InputError: a JSON file of no known form, a file of another format, or one that cannot be read.
    """
    check_form(path)
    if form(path) not in (".json", ".jsonl"):
        return "text"
    with open_lines(path) as lines:
        head = next((line for line in lines if line.strip()), "")
        while len(head) < _HEAD_CHARS and (more := next(lines, "")) and not head.rstrip().endswith("}"):
            head += more
    start = head[:4000]
    if '"paragraphs"' in start and '"data"' in start:
        return "squad"
    if head.lstrip().startswith("[") and '"turns"' in head:
        return "chat"
    try:
        row = json.loads(head)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict):
        if {"context", "question", "answers"} <= set(row):
            return "squad"
        if is_chat(row):
            return "chat"
        if isinstance(row.get("text"), str):
            return "text"
    raise InputError(
        "a JSON file of no known form",
        given=f"{path}: {head[:60].strip()!r}",
        expected='lines with "text", "turns", "messages", or "context", "question", "answers"; or SQuAD JSON',
    )


def _fingerprint(folder: Path, files: list[Path], seed: int) -> str:
    told = [[str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns] for p in files]
    record = {"recipe": _RECIPE, "seed": seed, "files": told, "context": CONTEXT_TOKENS, "row": ROW_TOKENS}
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _hold_out(texts: list[Path]) -> tuple[HoldOut, dict[Path, int]]:
    """By title where documents are many, every twentieth where they are some, the ends of long ones where few."""
    firsts: dict[Path, int] = {}
    number = 0
    for path in texts:
        firsts[path] = number
        for _ in read_documents(path):
            number += 1
            if number > _MANY:
                return HoldOut(), {}
    return (HoldOut(every=_EVERY) if number >= _FEW else HoldOut(tail=True)), firsts


def prepare_folder(
    folder: Path,
    out: Path,
    seed: int = 0,
    workers: int = 1,
    on_progress: Callable[[str], None] = lambda line: None,
) -> Path:
    """Prepare whatever a folder holds, once: a folder that has not changed is found prepared.

    Args:
        folder: raw files, read recursively; or one file.
        out: where prepared folders are kept, each under a fingerprint of the files' names, sizes, times and the seed.
        seed: source of every choice.
        workers: processes.
        on_progress: called with a line now and then; also told which files are not read, and when the folder has
            changed since it was prepared.

    Returns:
        The prepared folder: ``train/``, ``val/`` and ``stream/`` below it.

    Raises:
        InputError: the folder holds nothing to train on, or a file cannot be read.
        StorageError: the output cannot be written.
    """
    inside = out.resolve()
    if folder.is_file():
        folder, files = folder.parent, [folder]
    elif folder.is_dir():
        files, foreign = (
            [path for path in paths if not path.resolve().is_relative_to(inside)] for paths in data_files(folder)
        )
        if foreign:
            on_progress(passed_over(folder, foreign))
    else:
        raise InputError("there is no such folder of training data", given=folder)
    if not files:
        raise InputError("the folder holds no text to train on", given=folder)
    target = out / f"data-{_fingerprint(folder, files, seed)}"
    if is_prepared(target):
        return target
    if any(out.glob("data-*")):
        on_progress(f"{folder} has changed since it was prepared: preparing it again")
    kinds = {path: kind_of(path) for path in files}
    texts = [path for path in files if kinds[path] == "text"]
    squads = [path for path in files if kinds[path] == "squad"]
    hold_out, firsts = _hold_out(texts)
    largest = max(path.stat().st_size * (4 if path.suffix in (".gz", ".xz", ".zst") else 1) for path in files)
    temporary = out / f".{target.name}.{os.getpid()}.tmp"
    options = PrepareOptions(
        out=temporary,
        texts=tuple(texts),
        dialogues=tuple(path for path in files if kinds[path] == "chat"),
        squad=tuple(squads),
        stream=True,
        workers=workers,
        slices=max(1, min(64, largest // _SLICE_BYTES)),
        seed=seed,
        hold_out=hold_out,
        text_source="text",
        firsts=firsts,
    )
    try:
        prepare(options, on_progress)
        try:
            temporary.rename(target)
        except OSError as error:
            if not is_prepared(target):  # else another process was as quick
                raise StorageError("the prepared data cannot be written", given=target, hint=str(error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target
