"""When work will have ended, from how fast it went of late."""

from collections import deque

_WINDOW_SEC = 30.0
"""What is looked back at: documents that had not changed go by at once, and say nothing of those that are read."""
_LEAST_SEC = 1.0
"""Before it nobody knows."""


class Pace:
    """How far some work is at what time.

    Args:
        total: all of it, in any unit; 0 while it is not known.
        now: seconds, as those that it is told later.
    """

    def __init__(self, total: int = 0, now: float = 0.0) -> None:
        self._total = total
        self._seen: deque[tuple[float, int]] = deque([(now, 0)])

    def at(self, done: int, now: float) -> float | None:
        """The time at which all will be done; None while it is not known.

        Args:
            done: so much of the total.
            now: seconds.
        """
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW_SEC:
            self._seen.popleft()
        then, before = self._seen[0]
        if not self._total or done <= before or now - then < _LEAST_SEC:
            return None
        return now + max(0, self._total - done) * (now - then) / (done - before)
