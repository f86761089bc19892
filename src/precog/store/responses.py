"""Stored responses of one user: one file each, with what was said and the state that the next one goes on from.

::

    responses/
      lock            held by whoever forgets, shared by whoever adds
      forgets         how often something was forgotten
      resp_….state    one response
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from precog.errors import BusyError, DamagedStateError, MissingError
from precog.store.failure import guarded
from precog.store.folder import make_folder, write_atomically
from precog.store.response import HEAD_BYTES, StoredResponse, expiry_of, is_id, text_bytes_of
from precog.writing import sync_folder

_ENDING = ".state"
_LOCK, _FORGETS = "lock", "forgets"


class ResponseFolder:
    """The stored responses of one user; any number of threads and processes may use it.

    Args:
        path: the folder; it is made with the first response.
        clock: seconds since 1970.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock

    @property
    def num_forgets(self) -> int:
        """How often something was forgotten: `add` wants it as it was before the answer was begun."""
        try:
            return int((self.path / _FORGETS).read_bytes())
        except FileNotFoundError:
            return 0
        except (OSError, ValueError):
            return -1

    def add(self, response: StoredResponse, *, begun_at: int) -> None:
        """Returns when the response is on the disk.

        Args:
            response: it.
            begun_at: `num_forgets` before anything that the answer is made from was looked at.

        Raises:
            BusyError: something was forgotten since, so that it might come back with this response.
            StorageError: the disk refuses; nothing is kept.
        """
        with guarded(self.path), self._lock(fcntl.LOCK_SH):
            if self.num_forgets != begun_at:
                raise BusyError(
                    "something was forgotten while this was answered, so that the response is not stored",
                    hint="ask again",
                )
            write_atomically(self._file(response.id), response.to_bytes())

    def get(self, response_id: str) -> StoredResponse:
        """A response.

        Raises:
            MissingError: there is none of this id, or no longer.
            DamagedStateError: it is not what was written.
        """
        path = self._file(response_id)
        data = self._read(path)
        if data is None:
            raise missing(response_id)
        try:
            found = StoredResponse.from_bytes(data, response_id)
        except DamagedStateError:
            if not path.exists():  # it was deleted while it was read
                raise missing(response_id) from None
            raise
        if found.expires <= self._clock():
            self._remove(path)  # the sweep would, too
            raise missing(response_id)
        return found

    def delete(self, response_id: str) -> None:
        """Removes a response, damaged or not, without leaving a byte.

        Raises:
            MissingError: there is none of this id.
            StorageError: the disk refuses.
        """
        path = self._file(response_id)
        head = self._read(path, up_to_state=True)
        if head is None:
            raise missing(response_id)
        is_over = expiry_of(head) <= self._clock()
        was_there = self._remove(path)
        with guarded(self.path):
            sync_folder(self.path)
        if is_over or not was_there:
            raise missing(response_id)

    def forget_following(self, response_id: str) -> int:
        """Removes a response and all that went on from it; returns how many.

        Raises:
            MissingError: there is none of this id.
        """
        self.get(response_id)

        def following(kept: list[StoredResponse]) -> set[str]:
            gone = {response_id}
            while more := {one.id for one in kept if one.previous in gone} - gone:
                gone |= more
            return gone

        return self._forget(following)

    def forget_all(self) -> int:
        """Removes every response; returns how many."""
        return self._forget(lambda kept: {one.id for one in kept})

    def forget_using(self, kind: str, name: str = "") -> int:
        """Removes every response whose state has read something that is to be forgotten; returns how many.

        Damaged ones go, too: nobody can tell what they have read.

        Args:
            kind: ``corpus`` or ``memory``.
            name: of the corpus; a memory has none.
        """
        return self._forget(lambda kept: {one.id for one in kept if (kind, name) in one.uses})

    def sweep(self) -> int:
        """Removes what has expired, and what a killed writer left; returns how many responses."""
        if not self.path.is_dir():
            return 0
        now, gone = self._clock(), 0
        with guarded(self.path):
            for path in self._files():
                head = self._read(path, up_to_state=True)
                if head is not None and expiry_of(head) <= now:
                    gone += self._remove(path)
            with self._lock(fcntl.LOCK_EX):
                self._remove_unfinished()
            sync_folder(self.path)
        return gone

    def _forget(self, chosen: Callable[[list[StoredResponse]], set[str]]) -> int:
        """Removes what is chosen of all responses, which come without their states, and what is damaged."""
        with guarded(self.path), self._lock(fcntl.LOCK_EX):
            # told first: what is being answered meanwhile has read what is to go
            write_atomically(self.path / _FORGETS, str(max(0, self.num_forgets) + 1).encode())
            kept: list[StoredResponse] = []
            leaving: list[Path] = []
            for path in self._files():
                data = self._read(path, up_to_state=True)
                if data is None:
                    continue
                try:
                    found = StoredResponse.from_bytes(data, path.stem, with_state=False)
                except DamagedStateError:
                    leaving.append(path)
                else:
                    kept.append(replace(found, response={}, items=[]))
            leaving += [self._file(one) for one in sorted(chosen(kept))]
            self._remove_unfinished()
            gone = sum(map(self._remove, leaving))
            sync_folder(self.path)
            return gone

    def _remove_unfinished(self) -> None:
        """Removes what a killed writer left; the lock is held, so that nobody is writing."""
        for path in self.path.glob(f"resp_*{_ENDING}.tmp"):
            self._remove(path)

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.path.glob(f"resp_*{_ENDING}")) if is_id(path.stem)]

    def _file(self, response_id: str) -> Path:
        if not is_id(response_id):
            raise missing(response_id)
        return self.path / (response_id + _ENDING)

    @contextlib.contextmanager
    def _lock(self, how: int) -> Iterator[None]:
        for folder in (self.path.parent.parent, self.path.parent, self.path):
            make_folder(folder)
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)

    def _read(self, path: Path, *, up_to_state: bool = False) -> bytes | None:
        """The bytes of a file, or those before the state; None where it is gone."""
        with guarded(path):
            try:
                with path.open("rb") as file:
                    if not up_to_state:
                        return file.read()
                    head = file.read(HEAD_BYTES)
                    return head + file.read(min(text_bytes_of(head), os.fstat(file.fileno()).st_size))
            except FileNotFoundError:
                return None

    def _remove(self, path: Path) -> bool:
        """Overwrites a file with zeros and removes it; False where somebody else has. The folder is not yet synced."""
        with guarded(path):
            try:
                with path.open("r+b") as file:
                    file.write(b"\0" * path.stat().st_size)
                    file.flush()
                    os.fsync(file.fileno())
                path.unlink()
            except FileNotFoundError:
                return False
            return True


def missing(response_id: str) -> MissingError:
    """The same for a response that never was, is gone, has expired, or is another user's."""
    return MissingError("there is no such response", given=response_id[:80], hint="responses are kept for a while only")
