"""Rows of a memory's catalogue ▸ frozen data: every value and every seal checked, so that damage is never an answer.

The seal of a row is the SHA-256 of a JSON array without spaces, ASCII only: the name of the table, then the values; a
BLOB of bytes enters as the hex of its SHA-256.
"""

import datetime
import hashlib
import json
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from precog.errors import CorpusError
from precog.store.memory.rows import Deposit, DepositInfo, DepositKeys, Emergent, Semantic, StoredPrototypes
from precog.store.memory.tables import FORGET, KEYS_ANEW, PROTOTYPES_ANEW
from precog.store.row_builder import Row, bytes_of, damaged, int_of, object_of, text_of, to_sql
from precog.store.seal import seal_of_keys

UID_BYTES = 32
Value = str | bytes | int | float | None
_REBUILD = "make it anew from the deposits (`precog memory reindex --user USER`), or restore a backup"


def seal_of(table: str, values: Sequence[Value]) -> bytes:
    """The checksum of a row."""
    said = [hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value for value in values]
    return hashlib.sha256(json.dumps([table, *said], separators=(",", ":"), ensure_ascii=True).encode()).digest()


def seal_of_state(deposit_id: int, position: int, content_hash: bytes) -> bytes:
    """Binds a state to its deposit and its place on the dial; where it lies may change."""
    return seal_of("states", (deposit_id, position, content_hash))


def keys_seal(deposit_id: int, num_windows: int, vectors: bytes) -> bytes:
    """Binds the keys to their deposit."""
    return seal_of_keys(deposit_id.to_bytes(8, "little"), num_windows, vectors)


def number_of(value: object) -> float:
    """A stored finite number; raises ValueError for anything else."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value) + 0.0  # SQLite keeps no negative zero


def ids_of(value: object) -> tuple[int, ...]:
    """Ids stored as a JSON array; raises ValueError for anything else."""
    found = json.loads(text_of(value)) if isinstance(value, str | bytes) else value
    if not isinstance(found, list) or any(type(number) is not int for number in found):
        raise ValueError(f"{found!r} are not ids")
    return tuple(found)


def values_of(deposit: Deposit) -> tuple[Value, ...]:
    """Everything that the seal of a deposit covers, in the order of its columns.

    Raises:
        CorpusError: a value that cannot be kept.
    """
    info = deposit.info
    if len(info.uid) != UID_BYTES:
        raise CorpusError("a deposit is named by 32 bytes", given=f"{len(info.uid)} bytes", expected=f"{UID_BYTES}")
    if info.time is not None and info.time.tzinfo is None:
        raise CorpusError(
            "the time of a deposit needs a zone", given=info.time.isoformat(), expected="an offset to UTC"
        )
    if info.num_tokens < 1:
        raise CorpusError("a deposit has read at least one token", given=info.num_tokens, expected="≥ 1")
    try:
        numbers = [
            number_of(value) for value in (info.probability, info.importance, deposit.accessed_at, info.created_at)
        ]
        superseded_at = None if deposit.superseded_at is None else number_of(deposit.superseded_at)
    except ValueError as error:
        raise CorpusError(
            "a deposit holds a number that cannot be kept", given=error, expected="finite numbers"
        ) from error
    when = (None, None) if info.time is None else (info.time.isoformat(), info.time.timestamp() + 0.0)
    details = json.dumps(info.details, sort_keys=True, ensure_ascii=True)
    said = (deposit.id, info.uid, info.text, info.header, info.key_text, details, *when)
    origin = (info.speaker, info.place, info.reference, info.domain, info.subcluster)
    history = (deposit.num_accesses, numbers[2], deposit.superseded_by, superseded_at, numbers[3])
    return (*said, *origin, numbers[0], numbers[1], info.num_tokens, *history)


def row_of(deposit: Deposit) -> tuple[Value, ...]:
    """The values of a deposit as SQLite takes them, and its seal."""
    values = values_of(deposit)
    return (*(to_sql(value) if isinstance(value, str) else value for value in values), seal_of("deposits", values))


def deposit_of(row: Row) -> Deposit:
    """A deposit, its checksum compared.

    Raises:
        DamagedCorpusError: it is not what was written; names the deposit.
    """
    try:
        number, uid, text, header, key_text, details, iso, utc, speaker, place, reference, domain, subcluster, *rest = (
            row
        )
        probability, importance, num_tokens, accesses, accessed_at, by, superseded_at, created_at, seal, states = rest
        info = DepositInfo(
            uid=bytes_of(uid),
            text=text_of(text),
            header=text_of(header),
            key_text=text_of(key_text),
            num_tokens=int_of(num_tokens),
            domain=text_of(domain),
            subcluster=text_of(subcluster),
            probability=number_of(probability),
            importance=number_of(importance),
            created_at=number_of(created_at),
            time=None if iso is None else datetime.datetime.fromisoformat(text_of(iso)),
            speaker=_optional_text(speaker),
            place=_optional_text(place),
            reference=_optional_text(reference),
            details=object_of(details),
        )
        deposit = Deposit(
            int_of(number),
            info,
            int_of(accesses),
            number_of(accessed_at),
            None if by is None else int_of(by),
            None if superseded_at is None else number_of(superseded_at),
            int_of(states),
        )
        if utc != info.time_utc or seal_of("deposits", values_of(deposit)) != seal:
            raise ValueError("its checksum does not match")
    except (ValueError, RecursionError, OverflowError, CorpusError) as error:
        raise damaged(f"deposit {row[0]}", error, FORGET) from error
    return deposit


def keys_of(row: Row, dim: int) -> DepositKeys:
    """The keys of a deposit, their checksum compared: deposit id, number of windows, vectors, seal.

    Raises:
        DamagedCorpusError: they are not what was written; names the deposit.
    """
    number, num_windows, vectors, seal = row
    try:
        data, count, deposit_id = bytes_of(vectors), int_of(num_windows), int_of(number)
        if not 0 < count < 1 << 32 or keys_seal(deposit_id, count, data) != seal:
            raise ValueError("their checksum does not match")
        if len(data) != 4 * count * dim:
            raise ValueError(f"{count} keys of {len(data)} bytes, {dim} numbers each")
        return DepositKeys(deposit_id, np.frombuffer(data, "<f4").reshape(count, dim))
    except (ValueError, OverflowError) as error:
        raise damaged(f"the keys of deposit {number}", error, KEYS_ANEW, are_many=True) from error


def semantic_row(semantic: Semantic) -> tuple[Value, ...]:
    """The values of a semantic state, and their seal."""
    values: tuple[Value, ...] = (
        semantic.domain,
        semantic.subcluster,
        number_of(semantic.alpha),
        semantic.num_deposits,
        semantic.last_deposit_id,
        semantic.num_tokens,
        _reals(semantic.recurrent),
        _reals(semantic.decay_time),
    )
    return (to_sql(semantic.domain), to_sql(semantic.subcluster), *values[2:], seal_of("semantic", values))


def semantic_of(row: Row) -> Semantic:
    """A semantic state, its checksum compared; its arrays may only be read.

    Raises:
        DamagedCorpusError: it is not what was written; names the sub-cluster.
    """
    domain, subcluster, alpha, num_deposits, last, num_tokens, recurrent, decay_time, seal = row
    try:
        names = text_of(domain), text_of(subcluster)
        counts = int_of(num_deposits), int_of(last), int_of(num_tokens)
        arrays = bytes_of(recurrent), bytes_of(decay_time)
        if seal_of("semantic", (*names, number_of(alpha), *counts, *arrays)) != seal:
            raise ValueError("its checksum does not match")
        state, tau = (np.frombuffer(data, "<f4") for data in arrays)
        return Semantic(*names, number_of(alpha), *counts, state, tau)
    except ValueError as error:
        raise damaged(f"the semantic state of {domain}/{subcluster}", error, _REBUILD) from error


def prototypes_row(prototypes: StoredPrototypes) -> tuple[Value, ...]:
    """Text and members of the prototypes, and their seal."""
    members = json.dumps(prototypes.members, separators=(",", ":"))
    return to_sql(prototypes.text), members, seal_of("prototypes", (prototypes.text, members))


def prototypes_of(row: Row) -> StoredPrototypes:
    """The prototypes, their checksum compared.

    Raises:
        DamagedCorpusError: they are not what was written.
    """
    try:
        text, members, seal = text_of(row[0]), text_of(row[1]), row[2]
        if seal_of("prototypes", (text, members)) != seal:
            raise ValueError("their checksum does not match")
        return StoredPrototypes(text, tuple(ids_of(ids) for ids in json.loads(members)))
    except (ValueError, RecursionError) as error:
        raise damaged("the prototypes", error, PROTOTYPES_ANEW, are_many=True) from error


def emergent_row(emergent: Emergent) -> tuple[Value, ...]:
    """The values of a grouping, and their seal."""
    members = json.dumps(sorted(emergent.members), separators=(",", ":"))
    details = json.dumps(emergent.details, sort_keys=True, ensure_ascii=True)
    values: tuple[Value, ...] = (emergent.name, emergent.domain, members, int(emergent.promoted), details)
    return (to_sql(emergent.name), to_sql(emergent.domain), *values[2:], seal_of("emergent", values))


def emergent_of(row: Row) -> Emergent:
    """A grouping, its checksum compared.

    Raises:
        DamagedCorpusError: it is not what was written; names the grouping.
    """
    name, domain, members, promoted, details, seal = row
    try:
        names, said = (text_of(name), text_of(domain)), (text_of(members), int_of(promoted), text_of(details))
        if seal_of("emergent", (*names, *said)) != seal:
            raise ValueError("its checksum does not match")
        return Emergent(*names, ids_of(said[0]), bool(said[1]), object_of(said[2]))
    except (ValueError, RecursionError) as error:
        raise damaged(f"the grouping {name}", error, _REBUILD) from error


def _optional_text(value: object) -> str | None:
    return None if value is None else text_of(value)


def _reals(values: Float32[np.ndarray, " reals"]) -> bytes:
    return np.ascontiguousarray(values, dtype="<f4").tobytes()
