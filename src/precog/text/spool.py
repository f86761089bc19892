"""Streams that can be read only once ▸ copies that can be read again."""

import os
import stat
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from precog.errors import InputError, StorageError

_READ_BYTES = 1 << 20


class Spool:
    """A copy of a stream on disk that has no name, so that it can be read more than once and vanishes with us.

    Attributes:
        num_bytes: how long it is.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Reads the stream to its end.

        Raises:
            InputError: it cannot be read.
            StorageError: there is no room for the copy.
        """
        self.num_bytes = 0
        try:
            with TemporaryFile(buffering=0) as copy:
                while data := _next_of(stream):
                    self.num_bytes += len(data)
                    while data:
                        data = data[copy.write(data) :]
                self._descriptor = os.dup(copy.fileno())
        except OSError as error:
            raise StorageError("no copy can be kept of what is piped in", hint=error.strerror) from error

    def open(self) -> BinaryIO:
        """The copy from its beginning; one reader at a time."""
        stream = os.fdopen(os.dup(self._descriptor), "rb")
        stream.seek(0)
        return stream

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


def _next_of(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_READ_BYTES)
    except OSError as error:
        raise InputError("what is piped in cannot be read", hint=error.strerror) from error


def spool_of_pipe(path: Path, mode: int, name: str) -> Spool:
    """What a pipe says until its end.

    Args:
        path: where it is.
        mode: its type and permissions, as ``stat`` tells them.
        name: for people.

    Raises:
        InputError: it is a device or a socket, or a pipe that nobody writes into.
        StorageError: there is no room for the copy.
    """
    if not stat.S_ISFIFO(mode):
        what = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"
        raise InputError(f"it is {what}, not a file", given=name, hint="`precog index -` reads standard input")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening waits for a writer that may never come
        os.set_blocking(descriptor, True)
    except OSError as error:
        raise InputError("the pipe cannot be opened", given=name, hint=error.strerror) from error
    with os.fdopen(descriptor, "rb") as stream:
        spool = Spool(stream)
    if not spool.num_bytes:
        hint = "start the writer first, or write `… | precog index -`"
        raise InputError("nothing is written into this pipe", given=name, hint=hint)
    return spool


def spool_of_stdin(stdin: BinaryIO | None = None) -> Spool:
    """What standard input, by default the process's own, says until its end.

    Raises:
        InputError: it is closed or a device, or cannot be read.
        StorageError: there is no room for the copy.
    """
    if stdin is None:
        if sys.stdin is None:
            raise InputError("standard input is closed", expected="a document")
        stdin = sys.stdin.buffer
    try:
        facts = os.fstat(stdin.fileno())
        is_device = stat.S_ISBLK(facts.st_mode) or (stat.S_ISCHR(facts.st_mode) and not stdin.isatty())
        if is_device and facts.st_rdev != os.stat(os.devnull).st_rdev:
            raise InputError("standard input is a device", expected="a document")
    except OSError:
        pass  # no file of the system: its end is its own affair
    return Spool(stdin)
