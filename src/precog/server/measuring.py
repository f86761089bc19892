"""A measurement of this machine, kept for a moment: whoever asks meanwhile waits for it, and measures nothing."""

import threading
import time
from collections.abc import Callable

from precog.plan.measured import MeasuredDevice

FRESH_SEC = 30.0
"""How long a measurement is told again: it takes the model and the disk for seconds, from everybody else, too."""


class Measuring:
    """The last measurement."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: MeasuredDevice | None = None
        self._ended = 0.0

    def measured(self, measure: Callable[[], MeasuredDevice]) -> MeasuredDevice:
        """The last measurement while it is fresh, else a new one; never two at once."""
        with self._lock:
            if self._last is None or time.monotonic() - self._ended > FRESH_SEC:
                self._last = measure()
                self._ended = time.monotonic()
            return self._last
