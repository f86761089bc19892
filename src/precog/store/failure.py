"""Turns what the operating system and SQLite say into the errors of the project."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precog.errors import BusyError, CorpusError, DamagedCorpusError, PrecogError, StorageError
from precog.store.remedy import CATALOGUE_ANEW

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNWRITTEN = {sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_FSYNC}


def storage_error(error: OSError, path: Path | str) -> StorageError:
    """One line for a write that the operating system refused."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        hint = "free some space and run the same command again: nothing acknowledged was lost"
        return StorageError(f"the disk is full or a quota is reached: {path} ({reason})", hint=hint)
    hint = "nothing acknowledged was lost; check the disk and its permissions"
    return StorageError(f"the disk refuses to be written: {path} ({reason})", hint=hint)


def catalogue_error(error: sqlite3.Error, path: Path | str, remedy: str = CATALOGUE_ANEW) -> PrecogError:
    """One line for a statement that SQLite refused; ``remedy`` is the hint for a damaged file."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusyError("the catalogue is in use by another process", given=str(path), hint="try again in a moment")
    if primary == sqlite3.SQLITE_FULL:
        hint = "free some space and run the same command again: nothing acknowledged was lost"
        return StorageError(f"the disk is full or a quota is reached: {path}", hint=hint)
    if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        hint = "nothing acknowledged was lost; check the disk, its space and its permissions"
        if getattr(error, "sqlite_errorcode", 0) in _UNWRITTEN:  # a quota looks no different from a broken disk here
            return StorageError(f"the disk is full, or refuses the catalogue: {path} ({error})", hint=hint)
        return StorageError(f"the disk refuses the catalogue: {path} ({error})", hint=hint)
    if "Could not decode to UTF-8" in str(error):
        primary = sqlite3.SQLITE_CORRUPT  # Python's own finding, without a code
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT):
        return DamagedCorpusError(f"the catalogue is damaged: {path} ({error})", hint=remedy)
    if primary == sqlite3.SQLITE_CONSTRAINT:  # of ours there is none that PRECOG itself runs into
        hint = f"nothing of this step was kept; somebody else has put a rule or trigger into the catalogue: {remedy}"
        return CorpusError(f"the catalogue refuses what is to be written: {path} ({error})", hint=hint)
    hint = f"nothing of this step was kept; if it happens again, {remedy}"
    return CorpusError(f"the catalogue refused a statement: {path} ({error})", hint=hint)


@contextmanager
def guarded(path: Path | str, remedy: str = CATALOGUE_ANEW) -> Iterator[None]:
    """Raises every OSError and sqlite3.Error of the block as one of the project's errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise catalogue_error(error, path, remedy) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes a damaged name
        raise catalogue_error(sqlite3.OperationalError("Could not decode to UTF-8"), path, remedy) from error
    except OSError as error:
        raise storage_error(error, path) from error


@contextmanager
def acknowledged(done: str, then: str) -> Iterator[None]:
    """Raises an error of a block that comes after a commit as one that says what stands already, and how to go on.

    Args:
        done: what is done, and what is not.
        then: what to type.
    """
    try:
        yield
    except (StorageError, CorpusError) as error:
        first = "close the other programs that read it, then " if isinstance(error, BusyError) else ""
        first = "free some space or see to the disk, then " if isinstance(error, StorageError) else first
        raise type(error)(f"{done}: {error.message}", given=error.given, hint=f"{first}{then}") from error


@contextmanager
def looking(path: Path | str, what: str = "corpus") -> Iterator[None]:
    """Raises an OSError of a block that only looks, say at a folder that may not be entered, as a CorpusError."""
    try:
        yield
    except OSError as error:
        given = f"{path} ({error.strerror or error})"
        raise CorpusError(f"the {what} folder cannot be read: {given}", hint="check its permissions") from error
