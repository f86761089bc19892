"""Rows of the catalogue ▸ frozen data: every value checked, so that a damaged row is an error and never an answer."""

import json
from collections.abc import Sequence
from typing import cast, get_args

import numpy as np

from precog.errors import DamagedCorpusError
from precog.store.record import Location
from precog.store.remedy import CATALOGUE_ANEW
from precog.store.rows import Chunk, ChunkInfo, ChunkKeys, Document, DocumentInfo, Part, Status
from precog.store.seal import seal_of_chunk, seal_of_keys, seal_of_part

Row = tuple[object, ...]
_FORGET = "forget the document and index it again (`precog forget`, `precog index`), or restore a backup"


def to_sql(text: str) -> str | bytes:
    """Text as it is stored: a BLOB where it is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def text_of(value: object) -> str:
    """Stored text; raises ValueError for anything else."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass")
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def int_of(value: object) -> int:
    """A stored integer; raises ValueError for anything else."""
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is not an integer")
    return value


def bytes_of(value: object) -> bytes:
    """A stored BLOB; raises ValueError for anything else."""
    if not isinstance(value, bytes):
        raise ValueError(f"{value!r} is not a BLOB")
    return value


def object_of(value: object) -> dict[str, object]:
    """A stored JSON object; raises ValueError for anything else."""
    text = text_of(value)
    found = {} if text == "{}" else json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{text!r} is not a JSON object")
    return found


def damaged(what: str, reason: object, hint: str = CATALOGUE_ANEW, *, are_many: bool = False) -> DamagedCorpusError:
    """The error of a row that is not what was written; ``are_many`` where ``what`` is more than one thing."""
    given = " ".join(str(reason).split())[:200]
    verb = "are" if are_many else "is"
    return DamagedCorpusError(f"the catalogue is damaged: {what} {verb} not what was written: {given}", hint=hint)


def document_of(row: Row) -> Document:
    """A document.

    Raises:
        DamagedCorpusError: a value is not of its type.
    """
    number, source, media_type, sha256, size, mtime, details, status, reason, num_chunks = row
    try:
        info = DocumentInfo(
            text_of(source), text_of(media_type), bytes_of(sha256), int_of(size), int_of(mtime), object_of(details)
        )
        if status not in get_args(Status):
            raise ValueError(f"{status!r} is not a status")
        reason_text = None if reason is None else text_of(reason)
        return Document(int_of(number), info, cast(Status, status), reason_text, int_of(num_chunks))
    except (ValueError, RecursionError) as error:
        raise damaged(f"the row of document {number} ({shown(source)})", error) from error


def chunk_of(row: Row) -> Chunk:
    """A chunk, its checksum compared.

    Raises:
        DamagedCorpusError: it is not what was written; names document and chunk.
    """
    number, document, source, ordinal, page, start, end, text, context, details, seal, *stored = row
    state, num_tokens, segment, slot, content_hash = stored
    try:
        place = (int_of(ordinal), None if page is None else int_of(page), int_of(start), int_of(end))
        said = (text_of(text), text_of(context), text_of(details))
        name, digest = text_of(source), bytes_of(content_hash)
        if seal_of_chunk(name, place, *said, digest) != seal:
            raise ValueError("its checksum does not match")
        info = ChunkInfo(place[0], place[1], (place[2], place[3]), said[0], said[1], object_of(details))
        where = Location(int_of(segment), int_of(slot))
        return Chunk(int_of(number), int_of(document), name, info, int_of(state), int_of(num_tokens), where, digest)
    except (ValueError, RecursionError) as error:
        raise damaged(f"chunk {ordinal} of {shown(source)}", error, _FORGET) from error


def keys_of(row: Row, dim: int, hint: str) -> ChunkKeys:
    """The keys of a chunk, their checksum compared.

    Raises:
        DamagedCorpusError: they are not what was written; names document and chunk.
    """
    number, source, ordinal, chunk_seal, num_windows, vectors, seal = row
    try:
        data, count = bytes_of(vectors), int_of(num_windows)
        if not 0 < count < 1 << 32 or seal_of_keys(bytes_of(chunk_seal), count, data) != seal:
            raise ValueError("their checksum does not match")
        if len(data) != 4 * count * dim:
            raise ValueError(f"{count} keys of {len(data)} bytes, {dim} numbers each")
        return ChunkKeys(int_of(number), np.frombuffer(data, "<f4").reshape(count, dim))
    except ValueError as error:
        raise damaged(f"the keys of chunk {ordinal} of {shown(source)}", error, hint, are_many=True) from error


def part_of(row: Row, dim: int, hint: str) -> Part:
    """A part of a chunk, its checksum compared.

    Raises:
        DamagedCorpusError: it is not what was written; names document and chunk.
    """
    number, chunk_id, ordinal, start, stop, num_windows, vectors, seal, *rest = row
    num_tokens, segment, slot, content_hash, chunk_seal, source, chunk_ordinal, num_characters = rest
    try:
        place = (int_of(ordinal), int_of(start), int_of(stop))
        data, count, digest = bytes_of(vectors), int_of(num_windows), bytes_of(content_hash)
        if not 0 < count < 1 << 32 or seal_of_part(bytes_of(chunk_seal), place, digest, count, data) != seal:
            raise ValueError("its checksum does not match")
        if len(data) != 4 * count * dim or not 0 <= place[1] < place[2] <= int_of(num_characters):
            raise ValueError(f"{count} keys of {len(data)} bytes, characters {place[1]} to {place[2]}")
        keys = np.frombuffer(data, "<f4").reshape(count, dim)
        where = Location(int_of(segment), int_of(slot))
        span = (place[1], place[2])
        return Part(int_of(number), int_of(chunk_id), place[0], span, keys, int_of(num_tokens), where, digest)
    except ValueError as error:
        raise damaged(f"part {ordinal} of chunk {chunk_ordinal} of {shown(source)}", error, hint) from error


def parts_missing(chunk: str, ordinals: Sequence[int], number: int | None, hint: str) -> DamagedCorpusError:
    """The error of a chunk that has not the parts it was written with; ``number`` of them, where that is known."""
    found = ", ".join(str(ordinal) for ordinal in ordinals) or "none"
    given = f"{chunk} has parts {found}" + ("" if number is None else f", and was written with {number}")
    return DamagedCorpusError("the catalogue is damaged: parts are missing", given=given, hint=hint)


def shown(source: object) -> str:
    """A name as a message shows it."""
    try:
        return text_of(source).encode("utf-8", "backslashreplace").decode()
    except ValueError:
        return repr(source)
