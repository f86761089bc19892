"""Sizes as people write them: ``2GB``, ``1.5 GiB``, ``500MB``, or plain bytes."""

import re

from precog.errors import UsageError

NO_LIMIT = "none"
SIZES = "bytes, or a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 2GB"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt]?)(i?)b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MOST_BYTES = 2**62


def read_size(text: str) -> int:
    """Bytes of a size; kB, MB and so on are powers of 1,000, KiB and MiB of 1,024.

    Raises:
        UsageError: it is none, or no whole number of bytes that a disk could hold.
    """
    match = _SIZE.fullmatch(text.strip())
    power = "" if match is None else (match[2] or "").lower()
    if match is None or (match[3] and not power) or ("." in match[1] and not power):
        raise UsageError("this is no size", given=text, expected=SIZES)
    count = round(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[power]) if power else int(match[1])
    if count > _MOST_BYTES:
        raise UsageError("a size is out of range", given=text, expected=f"at most {_MOST_BYTES} bytes")
    return count


def read_limit(text: str) -> int | None:
    """The same, or None for ``none``, which is no limit.

    Raises:
        UsageError: it is neither.
    """
    if text.strip().lower() == NO_LIMIT:
        return None
    try:
        return read_size(text)
    except UsageError as error:
        raise UsageError(error.message, given=error.given, expected=f"{error.expected}; or {NO_LIMIT}") from error
