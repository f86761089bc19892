"""Standard input, output and error as the commands use them: what is wrong with them is one line, never a traceback.

All that a command writes goes through here, whoever writes it (`print`, rich, the command line library).
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TextIO, cast, runtime_checkable

from precog.errors import InputError, StorageError


@runtime_checkable
class Stream(Protocol):
    """What text can be written to."""

    def write(self, text: str, /) -> object:
        """Writes, perhaps later."""
        ...

    def flush(self) -> None:
        """Writes what waits."""
        ...

    def isatty(self) -> bool:
        """Whether people read it."""
        ...

    def fileno(self) -> int:
        """The number of its file."""
        ...


class Output:
    """Standard output; after the first failure nothing more is written, and nothing is said a second time.

    Attributes:
        broken: whether it has failed.
        committed: what was done that stays done when it fails, for people; "" where nothing was.
    """

    def __init__(self, stream: Stream | None) -> None:
        self._stream = stream
        self.broken = stream is None
        self.committed = ""

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Whether people read it."""
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> int:
        """Writes.

        Raises:
            BrokenPipeError: whoever read it has gone.
            StorageError: it is closed, or the disk is full.
        """
        if self._stream is None:
            raise StorageError("standard output is closed", hint="send it to a file, or to /dev/null")
        if not self.broken:
            try:
                self._stream.write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        """Writes what waits; raises what `write` does."""
        if self._stream is not None and not self.broken:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: OSError) -> None:
        assert self._stream is not None
        self.broken = True
        _discard(self._stream)
        if isinstance(error, BrokenPipeError):
            raise error
        hint = "; ".join(part for part in (error.strerror, self.committed) if part)
        raise StorageError("standard output cannot be written", hint=hint or None) from error


def note_committed(done: str) -> None:
    """Notes what is done for good, so that whoever cannot be told the rest learns that."""
    if isinstance(sys.stdout, Output):
        sys.stdout.committed = done


class Messages:
    """Standard error; a message that cannot be written is dropped, for there is nowhere left to say so."""

    def __init__(self, stream: Stream | None) -> None:
        self._stream: Stream = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open to the end

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Whether people read it."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Writes if it can."""
        try:
            self._stream.write(text)
        except OSError:
            _discard(self._stream)
        return len(text)

    def flush(self) -> None:
        """Writes what waits if it can."""
        try:
            self._stream.flush()
        except OSError:
            _discard(self._stream)


def _discard(stream: Stream) -> None:
    """What is still buffered goes nowhere, so that it does not fail once more when the process ends."""
    with suppress(OSError):  # a stream without a file has nothing to fail later
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def guarded() -> Iterator[Output]:
    """Puts both in the place of the process's own for the time of a command."""
    for number in range(3):  # a file opened later must not become the standard output of a library
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character shows its number
    output = Output(sys.stdout)
    messages = Messages(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, messages)
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = before


def lines_of_input() -> Iterator[str]:
    """The lines of standard input, one as soon as it is there, with what is not UTF-8 apart for `check_line`.

    Raises:
        InputError: it is closed or cannot be read.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed", expected="questions, one a line")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    try:
        while line := sys.stdin.readline():
            yield line
    except OSError as error:
        raise InputError("standard input cannot be read", hint=error.strerror) from error


def check_line(line: str) -> None:
    """Refuses a line of standard input with bytes that are no text.

    Raises:
        InputError: there are some; the first is named.
    """
    try:
        line.encode()
    except UnicodeEncodeError as error:
        at = len(line[: error.start].encode())
        raise InputError("the line is not UTF-8", given=f"byte {at} of it", expected="text in UTF-8") from error


def readable(line: str) -> str:
    """The same line with U+FFFD for bytes that are no text."""
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def bytes_of_input() -> bytes:
    """All of standard input.

    Raises:
        InputError: it is closed or cannot be read.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed", expected="what is to be read")
    try:
        buffer = getattr(sys.stdin, "buffer", None)
        return sys.stdin.read().encode() if buffer is None else cast(bytes, buffer.read())
    except OSError as error:
        raise InputError("standard input cannot be read", hint=error.strerror) from error
