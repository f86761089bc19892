"""The seal of a checkpoint: digests of its files in its record, and a digest of the record itself."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from precog.errors import TrainingError

RECORD = "record.json"
FILES, SEAL = "files", "sha256"
NAME = re.compile(r"step-([0-9]{8})|\.step-([0-9]{8})\.replaced")


def digest_of(path: Path) -> str:
    """Hex SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A record with the digest of everything else in it; plain data."""
    plain: dict[str, Any] = json.loads(json.dumps({key: value for key, value in record.items() if key != SEAL}))
    return {**plain, SEAL: sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()}


def seal_folder(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The sealed record of the files that lie in a folder.

    Raises:
        OSError: one cannot be read.
    """
    paths = sorted(folder.glob("*.safetensors"))
    with ThreadPoolExecutor() as pool:
        digests = dict(zip((path.name for path in paths), pool.map(digest_of, paths), strict=True))
    return sealed({**record, FILES: digests})


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a checkpoint; its files are not looked at.

    Raises:
        TrainingError: it is missing, not what was written, written without digests, or of another step than the
            folder's name says.
    """
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise TrainingError(f"the checkpoint is damaged: {path}: no JSON object")
        if SEAL not in record and FILES not in record and "settings" in record:
            raise TrainingError(
                f"the checkpoint was written without digests: {folder}",
                hint=f"start another --out folder from its weights: --initial {folder / 'model.safetensors'}",
            )
        is_whole = record.get(SEAL) == sealed(record)[SEAL]
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise TrainingError(f"the checkpoint is damaged: {path}: {reason}") from error
    if not is_whole:
        raise TrainingError(f"the checkpoint is damaged: {path} is not what was written")
    if (wrong := _wrong(record, folder.name)) is not None:
        raise TrainingError(f"the checkpoint is damaged: {path}: {wrong} {record.get(wrong)!r:.80}")
    return record


def _wrong(record: dict[str, Any], name: str) -> str | None:
    """The first entry that no run writes."""
    named = NAME.fullmatch(name)
    steps, tokens = record.get("step"), record.get("tokens_seen", 0)
    window, scalars, files = record.get("window", []), record.get("optimiser_scalars"), record.get(FILES)
    if type(steps) is not int or steps < 0 or (named is not None and int(named[1] or named[2]) != steps):
        return "step"
    if type(tokens) is not int or tokens < 0:
        return "tokens_seen"
    if not isinstance(window, list) or not all(isinstance(row, list) and all(map(_is_number, row)) for row in window):
        return "window"
    if not isinstance(scalars, dict) or not all(map(_is_number, scalars.values())):
        return "optimiser_scalars"
    if not isinstance(files, dict) or not all(Path(file).name == file for file in files):
        return FILES
    return None


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def verify(folder: Path) -> dict[str, Any]:
    """The record of a checkpoint whose every byte is as it was written.

    Raises:
        TrainingError: a byte of it is not, or a file is missing.
    """
    record = read_record(folder)
    files: dict[str, str] = record[FILES]
    try:
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(digest_of, (folder / name for name in files)))
    except OSError as error:
        given = f"{error.filename}: {error.strerror}"
        raise TrainingError(f"the checkpoint is damaged: {given}") from error
    for (name, expected), digest in zip(files.items(), found, strict=True):
        if digest != expected:
            raise TrainingError(f"the checkpoint is damaged: {folder / name} is not what was written")
    return record
