"""A memory as a file that people can read: one JSON object a line, the first says what it is.

It holds what was said, not states: whoever imports it reads the texts with a model of their own.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from precog.errors import InputError
from precog.memory.chunking import MemoryChunk
from precog.memory.deposit import Remembered, deposit
from precog.memory.moment import parse_time, resolve
from precog.memory.opened import OpenMemory
from precog.memory.utterance import Utterance
from precog.store import write_atomically
from precog.store.memory import Deposit, MemoryStore

FORMAT = "precog-memory"
VERSION = 1
_TEXTS = ("text", "header", "time", "speaker", "place", "reference")
_NUMBERS = ("id", "part", "num_parts", "importance", "created_at", "superseded_by", "superseded_at")


@dataclass(frozen=True)
class Entry:
    """One deposit of an archive.

    Attributes:
        id: its number there.
        chunk: what was said.
        importance: as deposited.
        superseded_by: number of the deposit that holds instead; None if it holds itself.
        superseded_at: since when, UTC seconds.
    """

    id: int
    chunk: MemoryChunk
    importance: float
    superseded_by: int | None
    superseded_at: float | None


def export(store: MemoryStore, path: Path) -> int:
    """Write a memory's deposits, readable by their owner only; packed where the name ends in ``.gz``.

    Returns:
        How many.

    Raises:
        StorageError: the disk refuses; a file that was there stays as it was.
    """
    rows = [_row(entry) for entry in store.deposits()]
    head = {"format": FORMAT, "version": VERSION, "deposits": len(rows)}
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [head, *rows]).encode()
    write_atomically(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return len(rows)


def _row(entry: Deposit) -> dict[str, object]:
    info = entry.info
    return {
        "id": entry.id,
        "text": info.text,
        "header": info.header,
        "time": None if info.time is None else info.time.isoformat(),
        "speaker": info.speaker,
        "place": info.place,
        "reference": info.reference,
        "part": info.details.get("part", 0),
        "num_parts": info.details.get("num_parts", 1),
        "importance": info.importance,
        "created_at": info.created_at,
        "superseded_by": entry.superseded_by,
        "superseded_at": entry.superseded_at,
    }


def read_archive(path: Path) -> list[Entry]:
    """All of an archive, checked before anything is made of it.

    Raises:
        InputError: it cannot be read, is no archive, of a newer version, cut short, or a line is wrong.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (OSError, EOFError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "damaged, or not UTF-8"
        raise InputError("the archive cannot be read", given=f"{path} ({reason})") from error
    lines = text.split("\n")
    head = _object(lines[0], path, 1)
    if head.get("format") != FORMAT:
        raise InputError("this is no archive of a memory", given=path, expected="a file of `precog memory export`")
    if head.get("version") != VERSION:
        raise InputError("the archive has another version", given=head.get("version"), expected=VERSION)
    entries = [_entry(_object(line, path, n), path, n) for n, line in enumerate(lines[1:], 2) if line]
    if len(entries) != head.get("deposits") or lines[-1]:
        raise InputError("the archive is cut short", given=len(entries), expected=f"{head.get('deposits')} deposits")
    known = {entry.id for entry in entries}
    if len(known) != len(entries) or not {entry.superseded_by for entry in entries} <= known | {None}:
        raise InputError("the archive contradicts itself", given=path, expected="each id once, and no other named")
    return entries


def import_archive(memory: OpenMemory, entries: list[Entry]) -> Remembered:
    """Deposit what an archive holds, in its order; what is known already is a duplicate.

    Raises:
        StorageError: the disk is full or refuses; what was acknowledged stays, and importing again goes on.
    """
    ids: list[int] = []
    duplicates = 0
    done = Remembered((), 0, deposit(memory, []).expired)
    for entry in entries:
        done = deposit(memory, [entry.chunk], importance=entry.importance)
        ids += done.ids
        duplicates += done.num_duplicates
    here = {entry.id: number for entry, number in zip(entries, ids, strict=True)}
    with memory.store.batch() as batch:
        for entry in entries:
            if entry.superseded_by is not None:
                batch.supersede(here[entry.id], here[entry.superseded_by], at=entry.superseded_at or 0.0)
    return Remembered(tuple(ids), duplicates, done.expired)


def _object(line: str, path: Path, number: int) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError("a line of the archive is no JSON object", given=f"{path}, line {number}")
    return value


def _entry(row: Mapping[str, object], path: Path, number: int) -> Entry:
    place = f"{path}, line {number}"
    wrong = [key for key in _TEXTS if not isinstance(row.get(key), str | None)]
    wrong += [key for key in _NUMBERS if not isinstance(row.get(key), int | float | None) or row.get(key) is True]
    wrong += [key for key in ("id", "text", "header", "part", "num_parts") if row.get(key) is None]
    if wrong or set(row) != {*_TEXTS, *_NUMBERS}:
        keys = sorted({*wrong, *(set(row) ^ {*_TEXTS, *_NUMBERS})})
        raise InputError("a line of the archive is not a deposit", given=f"{place}: {', '.join(keys)}")
    value = dict(row)
    at = None if value["time"] is None else parse_time(str(value["time"]))
    try:
        said = Utterance(str(value["text"]), at, value["speaker"], value["place"], value["reference"])  # type: ignore[arg-type]  # checked above
    except InputError as error:
        raise InputError("a line of the archive is not a deposit", given=f"{place}: {error}") from error
    resolved = () if at is None else resolve(said.text, at)
    part, parts = int(str(value["part"])), int(str(value["num_parts"]))
    chunk = MemoryChunk(said, str(value["header"]), part, parts, tuple(resolved))
    newer, since = value["superseded_by"], value["superseded_at"]
    return Entry(
        int(str(value["id"])),
        chunk,
        float(str(value["importance"] or 0.0)),
        None if newer is None else int(str(newer)),
        None if since is None else float(str(since)),
    )
