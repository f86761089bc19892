"""Who may write next: requests that write to one folder wait in line here; at its lock the quickest would win."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from precog.errors import CancelledError, LimitError

MOST_WAITING = 64
"""Requests in one line; whoever comes then is told to come later."""
LONGEST_SEC = 60.0
"""That a request waits in line."""
_LOOK_SEC = 0.1
_RETRY_SEC = 5.0


class Writers:
    """Lines before folders, first come, first served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[Path, deque[object]] = {}

    @contextmanager
    def turn(self, folder: Path, cancelled: threading.Event) -> Iterator[None]:
        """Inside, no other request of this server writes to the folder.

        Args:
            folder: that is written to.
            cancelled: set when whoever asked has gone.

        Raises:
            CancelledError: it was set while waiting.
            LimitError: the line is too long, or does not move.
        """
        place = object()
        with self._changed:
            line = self._lines.setdefault(folder, deque())
            if len(line) > MOST_WAITING:
                raise _later()
            line.append(place)
        try:
            self._wait(line, place, cancelled)
            yield
        finally:
            with self._changed:
                line.remove(place)
                if not line:
                    del self._lines[folder]
                self._changed.notify_all()

    def _wait(self, line: deque[object], place: object, cancelled: threading.Event) -> None:
        until = time.monotonic() + LONGEST_SEC
        with self._changed:
            while line[0] is not place:
                if cancelled.is_set():
                    raise CancelledError("whoever asked has gone")
                if time.monotonic() > until:
                    raise _later()
                self._changed.wait(_LOOK_SEC)


def _later() -> LimitError:
    return LimitError(
        "too many requests write to this at once", hint="send the same request again", retry_after_sec=_RETRY_SEC
    )
