"""Stopping between two steps of work when the user or the system asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether SIGINT or SIGTERM has arrived; a second SIGINT does not wait for the step.

    Attributes:
        is_wanted: since the first of them.
    """

    def __init__(self) -> None:
        self.is_wanted = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_wanted = True

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
