"""One client's connection to a server: requests, streams, and going away in the middle."""

import http.client
import json
import time
import urllib.parse
from dataclasses import dataclass, field

from precog.errors import UsageError

_TIMEOUT_SEC = 180.0
GONE = -1
"""Status of a request that the client itself broke off."""
BROKEN = 0
"""Status of a request whose connection was refused or ended before the answer did."""
_ERRORS = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class Address:
    """Where a server is, and the key to it.

    Attributes:
        host: of it.
        port: of it.
        is_tls: whether it speaks HTTPS.
        key: of the API; "" without one.
    """

    host: str
    port: int
    is_tls: bool = False
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str, key: str = "") -> "Address":
        """Reads a URL.

        Raises:
            UsageError: it is none of a server's.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            is_tls = parts.scheme == "https"
            port = parts.port or (443 if is_tls else 80)
            is_one = (
                parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/") and not parts.query
            )
        except ValueError:
            is_one = False
        if not is_one:
            raise UsageError("--url: this is no server", given=url, expected="http://HOST:PORT")
        return cls(str(parts.hostname), port, is_tls, key)


@dataclass(frozen=True)
class Answered:
    """How a request ended.

    Attributes:
        status: of HTTP, `GONE` or `BROKEN`.
        seconds: until its end.
        body: the JSON of it, or of the last event of a stream; {} where there is none.
        first_sec: until the first event of a stream; None where it was none.
        num_pieces: events of a stream that carried text.
        reason: why it is `BROKEN`.
        retry_after_sec: what the server asked for.
    """

    status: int
    seconds: float
    body: dict[str, object] = field(default_factory=dict)
    first_sec: float | None = None
    num_pieces: int = 0
    reason: str = ""
    retry_after_sec: float = 0.0


class Connection:
    """Requests of one thread, over one connection that is made again when it ends."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, method: str, path: str, body: object = None, *, gone_after: float | None = None) -> Answered:
        """One request and its whole answer.

        Args:
            method: of HTTP.
            path: with its query.
            body: JSON, or bytes of a file.
            gone_after: seconds after which the client goes away, whatever has come.
        """
        started = time.perf_counter()
        try:
            self._send(method, path, body)
            if gone_after is not None:
                time.sleep(gone_after)
                self.close()
                return Answered(GONE, time.perf_counter() - started)
            response = self._response()
            text = response.read()
        except _ERRORS as error:
            return self._broken(started, error)
        return Answered(response.status, time.perf_counter() - started, _json(text), retry_after_sec=_wait(response))

    def stream(self, path: str, body: object, *, gone_after: int | None = None) -> Answered:
        """One request that is answered with server-sent events.

        Args:
            path: of it.
            body: JSON.
            gone_after: events after which the client goes away.
        """
        started, first, pieces, last = time.perf_counter(), None, 0, b"{}"
        try:
            self._send("POST", path, body)
            response = self._response()
            if response.status != 200:
                text, wait = response.read(), _wait(response)
                return Answered(response.status, time.perf_counter() - started, _json(text), retry_after_sec=wait)
            while line := response.readline():
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                first = time.perf_counter() - started if first is None else first
                if data != b"[DONE]":
                    pieces, last = pieces + 1, data
                if gone_after is not None and pieces >= gone_after:
                    self.close()
                    return Answered(GONE, time.perf_counter() - started, first_sec=first)
        except _ERRORS as error:
            return self._broken(started, error)
        found = _json(last)
        if "error" in found:
            return Answered(BROKEN, time.perf_counter() - started, found, reason="an error in the stream")
        return Answered(200, time.perf_counter() - started, found, first, pieces)

    def _send(self, method: str, path: str, body: object) -> None:
        address = self._address
        if self._connection is None:
            kind = http.client.HTTPSConnection if address.is_tls else http.client.HTTPConnection
            self._connection = kind(address.host, address.port, timeout=_TIMEOUT_SEC)
        headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        data = body if isinstance(body, bytes) else None
        if data is not None:
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, path, data, headers)
        except (BrokenPipeError, ConnectionResetError, http.client.CannotSendRequest):
            self._connection.close()  # it had been idle for too long: it is made again by the library
            self._connection.request(method, path, data, headers)

    def _response(self) -> http.client.HTTPResponse:
        assert self._connection is not None
        return self._connection.getresponse()

    def _broken(self, started: float, error: BaseException) -> Answered:
        self.close()
        return Answered(BROKEN, time.perf_counter() - started, reason=type(error).__name__)


def _json(text: bytes) -> dict[str, object]:
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _wait(response: http.client.HTTPResponse) -> float:
    text = response.headers.get("Retry-After", "0")
    return float(text) if text.isdigit() else 0.0
