"""Refusals that only a server has reason for."""

from precog.errors import LimitError

_RETRY_SEC = 5.0


class SlowError(LimitError):
    """The body of a request does not come."""

    code = "limit.slow"


class UnavailableError(LimitError):
    """Nobody is let in now."""

    code = "unavailable"

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint=hint, retry_after_sec=_RETRY_SEC)
