"""How many requests in a time: buckets that fill again."""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from precog.errors import LimitError

_MOST_BUCKETS = 10_000


class Buckets:
    """One bucket of tokens for each name; a request takes a token, and tokens come back evenly.

    The buckets that were used last are kept, so that many names cost no memory; one that is dropped was full again, or
    belongs to somebody among thousands.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> None:
        """Takes one token.

        Args:
            name: whose bucket.
            per_minute: tokens that it holds, and that come back in a minute; 0 for no limit.

        Raises:
            LimitError: it is empty; with the seconds until it is not.
        """
        if per_minute <= 0:
            return
        now = self._clock()
        tokens, then = self._buckets.pop(name, (float(per_minute), now))
        tokens = min(float(per_minute), tokens + (now - then) * per_minute / 60)
        is_empty = tokens < 1
        self._buckets[name] = (tokens if is_empty else tokens - 1, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if is_empty:
            raise LimitError(
                "too many requests",
                expected=f"at most {per_minute} a minute",
                hint="wait as long as Retry-After says",
                retry_after_sec=(1 - tokens) * 60 / per_minute,
            )


def neighbourhood(address: str) -> str:
    """What is limited together: an IPv4 address, or all IPv6 addresses of one network, of which anybody has many."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    return str(IPv6Address(int(found) >> 64 << 64)) if isinstance(found, IPv6Address) else str(found)
