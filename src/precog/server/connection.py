"""Connections: whoever asks nothing, or reads nothing of the answer, holds none for long."""

import asyncio
import json
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from precog.errors import InputError
from precog.server.failure import body_of

HEAD_SEC = 30.0
"""What the first lines of a request may take, from the connection or the answer before."""
READ_SEC = 60.0
"""How long an answer may wait for a client that takes nothing of it."""
_MOST_FILES = 65_536
_MOST_CONNECTIONS = 4_096


def most_connections() -> int:
    """Connections that this process can keep: half of its open files; the rest is for corpora and uploads.

    A process that may have more open files than it has now gets them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # some systems have a lower limit than they say
    return min(_MOST_CONNECTIONS, max(2, (_MOST_FILES if soft == resource.RLIM_INFINITY else soft) // 2))


def protocol(most: int) -> type[asyncio.Protocol]:
    """What uvicorn makes of each connection.

    Args:
        most: connections at once; beyond it the one that has asked nothing for longest is closed, else the new one.
    """
    idle: dict[Connection, None] = {}  # the longest idle first

    class Limited(Connection):
        _idle, _most = idle, most

    return Limited


class Connection(H11Protocol):
    """One connection, with a time for everything that it waits for of its client."""

    _idle: "dict[Connection, None]"
    _most: int
    _waiting: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """It begins."""
        super().connection_made(transport)
        self._look()
        if len(self.connections) > self._most:
            longest = next(iter(self._idle))  # itself at the least
            longest._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._idle.pop(self, None)
        self._stop_waiting()
        self._stop_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """An answer has ended; the next request may be there already."""
        super().on_response_complete()
        if self._waiting is not None:  # what was begun then is another wait
            self._stop_waiting()
        self._look()

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(READ_SEC, self._abort)

    def resume_writing(self) -> None:
        """It has taken enough."""
        self._stop_writing()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What is no request is told so, in the shape of all errors, where no answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        error = InputError("this is no HTTP request", expected="HTTP/1.1")
        body = json.dumps(body_of(error, 400)).encode()
        headers: list[Any] = [("content-type", "application/json"), ("content-length", str(len(body)))]
        parts = (
            h11.Response(status_code=400, headers=[*headers, ("connection", "close")], reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(part) or b"" for part in parts))
        self.transport.close()

    def _look(self) -> None:
        """Begins to wait for a request, or ends it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._idle[self] = None
            self._waiting = self.loop.call_later(HEAD_SEC, self._abort)

    def _stop_waiting(self) -> None:
        self._idle.pop(self, None)
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _stop_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _abort(self) -> None:
        self._stop_waiting()
        self.transport.abort()
