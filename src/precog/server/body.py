"""Bodies of requests: none is larger, or slower to arrive, than it may be."""

import asyncio
import time
from collections.abc import Callable

from starlette.types import Message, Receive

from precog.errors import LimitError
from precog.server.refusal import SlowError

GRACE_SEC = 30.0
LEAST_BYTES_PER_SEC = 8_192
"""A body may take `GRACE_SEC`, and a second more for so many bytes that have come."""
_LINGER_SEC = 5.0


class GoneError(Exception):
    """The client has disconnected before its body was whole."""


class Body:
    """The body of one request, counted while it comes.

    Args:
        receive: of the request.
        max_bytes: that it may have.
        clock: seconds, never going back.

    Attributes:
        refusal: why no more of it is read; None while it is.
    """

    def __init__(self, receive: Receive, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._receive, self._max_bytes, self._clock = receive, max_bytes, clock
        self._began = clock()
        self._is_whole = False
        self._num_bytes = 0
        self._kept: bytes | None = None
        self.refusal: LimitError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is to come."""
        return self._is_whole

    def check_length(self, declared: str | None) -> None:
        """Refuses a body that says of itself that it is too large.

        Raises:
            LimitError: it does.
        """
        if declared is not None and declared.isascii() and declared.isdigit():
            digits = declared.lstrip("0") or "0"
            if len(digits) > 15 or int(digits) > self._max_bytes:
                raise self._too_large()

    async def receive(self) -> Message:
        """The next piece, as the application asks for it.

        Raises:
            LimitError: it is too large, or too slow.
        """
        if self._kept is not None:
            data, self._kept = self._kept, None
            return {"type": "http.request", "body": data, "more_body": False}
        if self._is_whole:
            return await self._receive()
        return await self._next()

    async def read(self) -> bytes:
        """All of it; the application gets it all the same.

        Raises:
            LimitError: it is too large, or too slow.
            GoneError: the client has disconnected.
        """
        pieces = []
        while not self._is_whole:
            message = await self._next()
            if message["type"] == "http.disconnect":
                raise GoneError
            pieces.append(message.get("body", b""))
        self._kept = b"".join(pieces)
        return self._kept

    async def drain(self) -> None:
        """Takes what still comes, for some seconds: most clients read no answer before they have sent everything."""
        try:
            async with asyncio.timeout(_LINGER_SEC):
                while not self._is_whole:
                    message = await self._receive()
                    self._is_whole = message["type"] == "http.disconnect" or not message.get("more_body", False)
        except TimeoutError:
            pass

    async def _next(self) -> Message:
        if self.refusal is not None:
            raise self.refusal
        until = self._began + GRACE_SEC + self._num_bytes / LEAST_BYTES_PER_SEC
        try:
            async with asyncio.timeout(max(0.0, until - self._clock())):
                message = await self._receive()
        except TimeoutError:
            self.refusal = SlowError(
                "the body of the request does not come",
                expected=f"{LEAST_BYTES_PER_SEC} bytes a second",
                hint="send it again, or in smaller parts",
            )
            raise self.refusal from None
        if message["type"] != "http.request":
            self._is_whole = True
            return message
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > self._max_bytes:
            raise self._too_large()
        self._is_whole = not message.get("more_body", False)
        return message

    def _too_large(self) -> LimitError:
        hint = "send less at a time; the server's --max-body and --max-upload say how much"
        self.refusal = LimitError(
            "the body of the request is too large", expected=f"at most {self._max_bytes} bytes", hint=hint
        )
        return self.refusal
