"""Stopping between two steps when the user or the system asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from precog.errors import TrainingError


class TrainingInterrupted(TrainingError):
    """The run was asked to stop; its checkpoint is complete and the same command goes on from it."""

    code = "interrupted"
    exit_status = 130

    def __init__(self, step: int, checkpoint: Path | None) -> None:
        super().__init__(
            f"interrupted after step {step}" + ("" if checkpoint is None else f", saved in {checkpoint}"),
            hint="run the same command again to go on from there",
        )


class Interrupt:
    """Whether SIGINT or SIGTERM has arrived; a second SIGINT does not wait for the step."""

    def __init__(self) -> None:
        self.is_wanted = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_wanted = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, the signals set ``is_wanted``; elsewhere than in the main thread they keep their meaning."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
