"""A memory as a file that people can read: one JSON object a line, the first says what it is.

It holds what was said, not states: whoever imports it reads the texts with a model of their own.
"""

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from precog.errors import InputError
from precog.memory.chunking import MemoryChunk
from precog.memory.damage import Damage, miscounts, without_damaged
from precog.memory.moment import parse_time, resolve
from precog.memory.transcript.json_values import parsed
from precog.memory.transcript.opening import read_bytes, unpacked
from precog.memory.utterance import Utterance, clean
from precog.store.memory import Deposit, MemoryStore
from precog.writing import output_file, output_target

FORMAT = "precog-memory"
VERSION = 1
_MOST_PARTS = 1_000_000
_CALENDAR_ENDS = 253402300800.0  # the year 10000, in UTC seconds
Name = TypeVar("Name", bound=Hashable)
_TEXTS = ("text", "header", "time", "speaker", "place", "reference")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and clean(value) == value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False


def _is_moment(value: object) -> bool:
    return _is_number(value) and 0 <= cast(float, value) < _CALENDAR_ENDS


def _or_null(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_KEYS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("text", "header"), _is_text),
    **dict.fromkeys(("time", "speaker", "place", "reference"), _or_null(_is_text)),
    **dict.fromkeys(("id", "part"), _is_count),
    "num_parts": lambda value: _is_count(value) and cast(int, value) <= _MOST_PARTS,
    "importance": _is_number,
    "created_at": _is_moment,
    "superseded_by": _or_null(_is_count),
    "superseded_at": _or_null(_is_moment),
}
"""What every line says of a deposit, and what it may be."""


@dataclass(frozen=True)
class Entry:
    """One deposit of an archive.

    Attributes:
        id: its number there.
        chunk: what was said.
        importance: as deposited.
        created_at: when it was deposited, UTC seconds.
        superseded_by: number of the deposit that holds instead; None if it holds itself.
        superseded_at: since when, UTC seconds.
        line: of the archive that it stands on.
    """

    id: int
    chunk: MemoryChunk
    importance: float
    created_at: float
    superseded_by: int | None
    superseded_at: float | None
    line: int

    @property
    def place(self) -> str:
        """Where it stands, for errors."""
        return f"line {self.line}"


def export(store: MemoryStore, path: Path) -> tuple[int, Damage]:
    """Write a memory's deposits, readable by their owner only; packed where the name ends in ``.gz``.

    Returns:
        How many, and what was left out because it is damaged.

    Raises:
        StorageError: the disk refuses, or that is no place for a file; one that was there stays as it was.
    """
    output_target(path, "archive")
    rows, damage = archive_rows(store)
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    with output_file(path, "archive") as file:
        file.write(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return len(rows) - 1, damage


def archive_rows(store: MemoryStore) -> tuple[list[dict[str, object]], Damage]:
    """The objects of an archive's lines, the first of which says what it is, and what is left out as damaged."""
    damaged = store.damaged_ids()
    rows = [_row(entry) for entry in without_damaged(store.deposits(only_sound=True), damaged)]
    head: dict[str, object] = {"format": FORMAT, "version": VERSION, "deposits": len(rows)}
    return [head, *rows], Damage(tuple(damaged), others=miscounts(store))


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
    return archive_of(read_bytes(path, "archive"), str(path))


def archive_of(data: bytes, path: str) -> list[Entry]:
    """The same of the bytes of a file, plain or packed; see `read_archive`."""
    try:
        text = unpacked(data, path, "archive").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("the archive is not UTF-8", given=path, hint=f"byte {error.start} of its text") from error
    if not text.strip():
        raise InputError("the archive is empty", given=path, expected="a file of `precog memory export`")
    lines = text.split("\n")
    head = _object(lines[0], path, 1)
    if head.get("format") != FORMAT:
        raise InputError("this is no archive of a memory", given=path, expected="a file of `precog memory export`")
    version, count = head.get("version"), head.get("deposits")
    if not _is_count(version) or version != VERSION:
        raise InputError("the archive has another version", given=json.dumps(version), expected=VERSION)
    if not _is_count(count):
        raise InputError("the archive does not say how many deposits it holds", given=json.dumps(count))
    if lines[-1] and _is_cut(lines[-1]):
        given = f"{path}, line {len(lines)} ends within a deposit"
        raise InputError("the archive is cut short", given=given, expected=f"{count} deposits")
    entries = [_entry(_object(line, path, n), path, n) for n, line in enumerate(lines[1:], 2) if line]
    if len(entries) != count:
        message = "the archive is cut short" if len(entries) < cast(int, count) else "the archive contradicts itself"
        raise InputError(message, given=f"{path}, {len(entries)} deposits", expected=f"{count}, as its first line says")
    known = {entry.id for entry in entries}
    if len(known) != len(entries) or not {entry.superseded_by for entry in entries} <= known | {None}:
        raise InputError("the archive contradicts itself", given=path, expected="each id once, and no other named")
    newer: dict[int, int] = {}
    for entry in entries:
        if entry.superseded_by is not None and not supersedes(newer, entry.id, entry.superseded_by):
            raise in_a_circle(entry, "the archive contradicts itself", f"{path}, ")
    return entries


def supersedes(newer: MutableMapping[Name, Name], old: Name, new: Name) -> bool:
    """Notes what holds instead of something; False if that would itself be superseded by it, however often."""
    at: Name | None = new
    while at is not None and at != old:
        at = newer.get(at)
    if at is None:
        newer[old] = new
    return at is None


def in_a_circle(entry: Entry, message: str, file: str = "") -> InputError:
    """The refusal of an entry that is to be superseded by what it has superseded."""
    given = f"{file}{entry.place}: {entry.id} is superseded by {entry.superseded_by}, and so by itself"
    return InputError(message, given=given, expected="something that holds")


def _is_cut(line: str) -> bool:
    try:
        parsed(line, "")
    except InputError:
        return True
    return False


def _object(line: str, path: str, number: int) -> Mapping[str, object]:
    try:
        value = parsed(line, "")
    except InputError as error:
        given = f"{path}, line {number}: {error.message}"
        raise InputError("a line of the archive is no JSON object", given=given) from error
    if not isinstance(value, dict):
        raise InputError("a line of the archive is no JSON object", given=f"{path}, line {number}")
    twice = [key for key, count in Counter(json.loads(line, object_pairs_hook=_names)).items() if count > 1]
    if twice:
        given = f"{path}, line {number}: {', '.join(twice)}"
        raise InputError("a line of the archive says something twice", given=given)
    return value


def _names(pairs: list[tuple[str, object]]) -> list[str]:
    return [name for name, _ in pairs]


def _entry(row: Mapping[str, object], path: str, number: int) -> Entry:
    place = f"{path}, line {number}"
    wrong = [key for key in _KEYS if key not in row or not _KEYS[key](row[key])]
    wrong += sorted(set(row) - set(_KEYS))
    if not wrong and (row["superseded_by"] is None) != (row["superseded_at"] is None):
        wrong = ["superseded_by without superseded_at, or the reverse"]
    if not wrong and (cast(int, row["part"]) >= cast(int, row["num_parts"]) or row["superseded_by"] == row["id"]):
        wrong = ["part"] if row["superseded_by"] != row["id"] else ["superseded_by"]
    if wrong:
        raise InputError("a line of the archive is not a deposit", given=f"{place}: {', '.join(wrong)}")
    text, header, time, speaker, where, reference = (cast(str, row[key]) for key in _TEXTS)
    try:
        at = None if time is None else parse_time(time)
        said = Utterance(text, at, speaker, where, reference)
    except InputError as error:
        raise InputError("a line of the archive is not a deposit", given=f"{place}: {error}") from error
    resolved = () if at is None else resolve(said.text, at)
    chunk = MemoryChunk(said, header, cast(int, row["part"]), cast(int, row["num_parts"]), tuple(resolved))
    return Entry(
        cast(int, row["id"]),
        chunk,
        float(cast(float, row["importance"])),
        float(cast(float, row["created_at"])),
        cast(int | None, row["superseded_by"]),
        None if row["superseded_at"] is None else float(cast(float, row["superseded_at"])),
        number,
    )
