"""Stopping between two steps of work when the user or the system asks for it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from precog.errors import CancelledError, PrecogError

_GONE: ContextVar[threading.Event | None] = ContextVar("gone", default=None)


class InterruptedRunError(PrecogError):
    """A command was interrupted, and its message says what it has kept."""

    code = "interrupted"
    exit_status = 130


@contextmanager
def noting_at_interruption(told: Callable[[], str]) -> Iterator[None]:
    """Inside, an interruption goes on with a note of what it leaves, for the command to say."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        interruption.add_note(told())
        raise


class Interrupt:
    """Whether SIGINT or SIGTERM has arrived; a second SIGINT does not wait for the step.

    Args:
        stopped: set by another thread that asks for the same.
    """

    def __init__(self, stopped: threading.Event | None = None) -> None:
        self._has_arrived, self._stopped = False, stopped

    @property
    def is_wanted(self) -> bool:
        """Whether anybody has asked for it."""
        return self._has_arrived or (self._stopped is not None and self._stopped.is_set())

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._has_arrived and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._has_arrived = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, the signals set ``is_wanted``; those that are ignored, and all outside the main thread, stay so."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
        for number in before:
            signal.signal(number, self._ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def leaving_when(gone: threading.Event | None) -> Iterator[None]:
    """Inside, in this thread, `check_asked` raises once the event is set; None changes nothing.

    For what only reads: between two tokens of an answer, two stages of a search, two looks at a lock.
    """
    if gone is None:
        yield
        return
    token = _GONE.set(gone)
    try:
        yield
    finally:
        _GONE.reset(token)


def check_asked() -> None:
    """Stops what nobody waits for any more.

    Raises:
        CancelledError: whoever asked has gone; see `leaving_when`.
    """
    gone = _GONE.get()
    if gone is not None and gone.is_set():
        raise CancelledError("it was stopped: whoever asked has gone")
