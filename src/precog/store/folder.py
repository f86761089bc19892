"""The folder of a corpus, or of a user's memory: a marker, a lock, and one numbered folder that holds everything else.

::

    CORPUS/
      precog.json     {"corpus": "precog", "format": 1, "current": "000001"}
      lock            held by the one process that writes
      000001/         catalogue.sqlite · segments/000000.seg … · index files

The marker of a memory says ``"memory": "precog"`` instead. Replacing a folder as a whole (another model, another
encoder) builds ``000002/`` beside it and then renames one new marker into place: a reader sees the old one or the new
one, never a mixture.
"""

import contextlib
import fcntl
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.errors import BusyError, CancelledError, CorpusError, DamagedCorpusError
from precog.interrupt import check_asked
from precog.store.failure import guarded, looking
from precog.store.kind import CORPUS, FolderKind
from precog.store.numbered import NumberedFolder, remove_file
from precog.writing import MARKER, OURS, marked_kinds, open_new, sync_folder

LOCK = "lock"
FORMAT = 1
_FIRST = "000001"
_NUMBER = re.compile("[0-9]{6}")
_HOLDER = re.compile(rb"[0-9]{0,20}\n?")


def make_folder(path: Path) -> None:
    """Makes a folder that only its owner may enter; one that is there and holds something keeps its mode."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not any(path.iterdir()):
        path.chmod(0o700)


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file of mode 0600 that is either the old one or the new one, whatever happens.

    Raises:
        StorageError: the disk refuses; the old file is untouched.
    """
    temporary = path.with_name(path.name + ".tmp")
    with guarded(path):
        try:
            temporary.unlink(missing_ok=True)  # of a killed writer: there is one writer at a time
            descriptor = open_new(temporary)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@dataclass(frozen=True)
class Identity:
    """A folder as the file system knows it.

    Attributes:
        folder: device and number; another one where it was removed and made again.
        marker: device, number and time of its marker, which a replacement writes anew.
    """

    folder: tuple[int, int]
    marker: tuple[int, int, int]


class MarkedFolder:
    """Finds, creates and switches the numbered folder that is current."""

    KIND: ClassVar[FolderKind]

    def __init__(self, path: Path) -> None:
        self.path = path

    def _marker(self, current: str) -> str:
        return json.dumps({self.KIND.name: OURS, "format": FORMAT, "current": current})

    def _numbered(self, path: Path) -> NumberedFolder:
        return NumberedFolder(path, self.KIND)

    @property
    def other_kind(self) -> str | None:
        """What the folder is instead, going by its marker."""
        return next((kind for kind in marked_kinds(self.path) if kind != self.KIND.name), None)

    @property
    def current(self) -> Path:
        """The folder that the marker names.

        Raises:
            CorpusError: no folder, of another kind, or of a newer format.
            DamagedCorpusError: the marker or what it names is damaged.
        """
        marker, name, hint = self.path / MARKER, self.KIND.name, self.KIND.how_to_make
        with looking(self.path, name):
            is_folder, has_marker = self.path.is_dir(), marker.is_file()
        if not is_folder:
            raise CorpusError(f"there is no {name} here", given=self.path, expected="a folder", hint=hint)
        if not has_marker:
            expected = f"a folder with {MARKER}"
            raise CorpusError(f"this folder is not a {name}", given=self.path, expected=expected, hint=hint)
        if other := self.other_kind:
            raise CorpusError(f"this folder is a {other}, not a {name}", given=self.path, expected=f"a {name}")
        try:
            found = json.loads(marker.read_bytes())
            is_ours, version, number = found[name] == OURS, int(found["format"]), str(found["current"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            hint = f"write {self._marker(_FIRST)} into it, with the number of the folder beside it"
            given = f"{marker} ({error})"
            raise DamagedCorpusError(f"the marker of the {name} is damaged", given=given, hint=hint) from error
        if not is_ours:
            expected = f"PRECOG's {MARKER}"
            raise CorpusError(f"this folder is not a {name}", given=self.path, expected=expected, hint=hint)
        if version > FORMAT:
            hint = "install a newer version of PRECOG"
            raise CorpusError(f"the {name} has a newer format", given=version, expected=f"≤ {FORMAT}", hint=hint)
        current = self.path / number
        with looking(self.path, name):
            is_whole = bool(_NUMBER.fullmatch(number)) and current.is_dir()
        if not is_whole:
            expected = f"a folder {number} in it"
            hint = self.KIND.catalogue_anew
            raise DamagedCorpusError(f"the {name} is incomplete", given=self.path, expected=expected, hint=hint)
        return current

    @property
    def next(self) -> Path:
        """The folder that a replacement is built in: an unfinished one of this corpus, or the first free number."""
        current = self.current
        with looking(self.path, self.KIND.name):
            number = int(current.name) + 1
            while (folder := self.path / f"{number:06d}").exists():
                if self._numbered(folder).is_unfinished_copy_of(self._numbered(current)):
                    break
                number += 1  # whatever it is, it is not ours
        return folder

    @property
    def identity(self) -> Identity | None:
        """What tells this folder from one that takes its place; None where there is none."""
        try:
            folder, marker = os.stat(self.path), os.stat(self.path / MARKER)
        except OSError:
            return None
        return Identity((folder.st_dev, folder.st_ino), (marker.st_dev, marker.st_ino, marker.st_mtime_ns))

    @property
    def exists(self) -> bool:
        """Whether there is a marker."""
        with looking(self.path, self.KIND.name):
            return (self.path / MARKER).is_file()

    def refuse_existing(self) -> None:
        """Refuses a folder that is one already, or holds something else than what an interrupted creation leaves.

        Raises:
            CorpusError: it does, or it cannot be read.
        """
        if self.exists:
            there = self.other_kind or self.KIND.name
            hint = "run the same command again to add to it" if there == self.KIND.name else "use another folder"
            raise CorpusError(f"there is a {there} here already", given=self.path, hint=hint)
        with looking(self.path, self.KIND.name):
            if not os.path.lexists(self.path):
                return
            strangers = sorted(self._strangers())
        if strangers:
            given = f"{self.path} holds {strangers[0]}" + (" and more" if len(strangers) > 1 else "")
            hint = "name a new or empty folder"
            raise CorpusError(f"this folder is not empty and not a {self.KIND.name}", given=given, hint=hint)

    def _strangers(self) -> list[str]:
        if not self.path.is_dir():
            return ["a file of that name"]
        found = []
        for path in self.path.iterdir():
            is_file = path.is_file() and not path.is_symlink()
            if path.name == _FIRST and path.is_dir():
                found += [f"{_FIRST}/{name}" for name in self._numbered(path).strangers()]
            elif path.name == LOCK and is_file and path.stat().st_size < 32:
                found += [] if _HOLDER.fullmatch(path.read_bytes()) else [LOCK]
            elif not (path.name == MARKER + ".tmp" and is_file):
                found.append(path.name)
        return found

    def first(self) -> Path:
        """The folder that a new corpus is built in before ``publish``, emptied of an interrupted creation.

        Raises:
            CorpusError: it holds a corpus that has lost its marker.
        """
        folder = self.path / _FIRST
        with guarded(self.path):
            if folder.exists():
                left = self._numbered(folder)
                if not left.holds_nothing:
                    hint = f"write {self._marker(_FIRST)} into {self.path / MARKER}, or name a new folder"
                    message = f"this folder holds a complete {self.KIND.name} whose marker is missing"
                    raise CorpusError(message, given=self.path, hint=hint)
                left.remove()
        return folder

    def remove_leftovers(self) -> None:
        """Deletes what a killed writer left of the marker."""
        with guarded(self.path):
            remove_file(self.path / (MARKER + ".tmp"))

    def publish(self, folder: Path) -> None:
        """Makes ``folder`` the current one; the step is atomic."""
        write_atomically(self.path / MARKER, (self._marker(folder.name) + "\n").encode())

    def remove_others(self, keep: Path | None = None) -> None:
        """Deletes unfinished replacements of the current folder and what it has replaced, but not ``keep``.

        Whatever else stands in the corpus folder, or in those folders, is not ours and stays.
        """
        current = self._numbered(self.current)
        with guarded(self.path):
            for path in sorted(self.path.iterdir()):
                if not _NUMBER.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
                    continue
                if path in (current.path, keep):
                    continue
                other = self._numbered(path)
                if other.is_unfinished_copy_of(current) or current.is_unfinished_copy_of(other):
                    other.remove()


class CorpusFolder(MarkedFolder):
    """The folder of a corpus."""

    KIND = CORPUS


class WriterLock:
    """Held by the one process that may write to a folder; the system frees it when that process ends."""

    def __init__(self, folder: Path, wait_sec: float, what: str = "corpus") -> None:
        path = folder / LOCK
        deadline = time.monotonic() + wait_sec
        self._descriptor = self._open(path)
        while not self._is_held(path):
            try:
                check_asked()
            except CancelledError:
                self.release()
                raise
            if time.monotonic() >= deadline:
                holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
                self.release()
                message = f"another process is writing to this {what}"
                hint = "wait until it has finished, then run the same command again"
                raise BusyError(message, given=f"{folder}, process {holder}", hint=hint) from None
            time.sleep(min(0.05, max(0.0, deadline - time.monotonic())))
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    @staticmethod
    def _open(path: Path) -> int:
        with guarded(path):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _is_held(self, path: Path) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with contextlib.suppress(FileNotFoundError):  # the folder is gone: whoever asked for it will see
            if not os.path.samestat(os.fstat(self._descriptor), os.stat(path)):
                self.release()  # the folder was removed and made again meanwhile: this is the lock of the old one
                self._descriptor = self._open(path)
                return False
        return True

    def release(self) -> None:
        """Lets the next writer in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
