"""Places that many users share: however many one of them asks for, the next user finds one."""

import threading
from collections import Counter

from precog.errors import LimitError

SHARE = 8
"""Times the free places that one user may have: alone nearly all, and the less the more users there are."""


class Places:
    """So many places, and who has them.

    A user may take a further place while it has fewer than `SHARE` times those that are free, one of which is only for
    somebody who has none. So one user alone leaves a ninth of them free (none of fewer than nine), and users who all
    want more come to have equally many.

    Args:
        count: of places.
        retry_sec: when somebody who found none may try again.
    """

    def __init__(self, count: int, retry_sec: float = 1.0) -> None:
        self._count, self._retry_sec = count, retry_sec
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @property
    def num_taken(self) -> int:
        """Places that are not free."""
        with self._lock:
            return self._taken.total()

    def check(self, user: str, retry_sec: float | None = None) -> None:
        """Refuses a further place to somebody who cannot have one now.

        Args:
            user: who wants it.
            retry_sec: when to try again, where it is known better.

        Raises:
            LimitError: all are taken, or this user has its share.
        """
        with self._lock:
            self._check(user, retry_sec)

    def take(self, user: str) -> None:
        """Takes one where there is one.

        Raises:
            LimitError: all are taken, or this user has its share.
        """
        with self._lock:
            self._check(user, None)
            self._taken[user] += 1

    def squeeze_in(self, user: str) -> None:
        """Takes one for what goes on from something that has begun, whether one is free or not."""
        with self._lock:
            self._taken[user] += 1

    def leave(self, user: str) -> None:
        """Gives one back."""
        with self._lock:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]

    def _check(self, user: str, retry_sec: float | None) -> None:
        own, free = self._taken[user], self._count - self._taken.total()
        wait = self._retry_sec if retry_sec is None else retry_sec
        if free <= 0:
            raise LimitError(
                "the server is busy", given=f"{self._count} requests", hint="try again", retry_after_sec=wait
            )
        kept = 1 if self._count > SHARE else 0
        if own and own >= SHARE * (free - kept):
            raise LimitError(
                "too many of your requests are worked on at once",
                given=f"{own} requests",
                expected="fewer: the places that are left are kept for others",
                hint="wait for some to end",
                retry_after_sec=wait,
            )
