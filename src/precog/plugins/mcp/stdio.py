"""The Model Context Protocol over standard input and output: nothing but its messages is written there."""

import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, BinaryIO

import anyio
import anyio.from_thread
import anyio.to_thread
import pydantic_core
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError

MOST_LINE_BYTES = 4 << 20
_MOST_START_BYTES = 1 << 16
"""Of a message that is too long this much is looked at for its number."""


def serve_stdio(server: "Server[Any]") -> None:
    """Serves the one client at the other end until it closes its end, or a signal comes."""
    anyio.run(_serve, server)


async def _serve(server: "Server[Any]") -> None:
    with _Wire() as wire:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_at_a_signal, tasks.cancel_scope)
            # both are files to the library in all that it uses of them
            async with stdio_server(wire, wire) as (read, write):  # type: ignore[arg-type]
                await server.run(read, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()


async def _stop_at_a_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


class _Wire:
    """Lines of messages from standard input, and to what was standard output; prints of others go to stderr meanwhile.

    Input is read in a thread that nobody waits for: at a signal it may be in the middle of a line that never ends.
    """

    def __enter__(self) -> "_Wire":
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(1), "wb")
        self._in: BinaryIO = os.fdopen(os.dup(0), "rb")
        os.dup2(2, 1)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        self._writing = anyio.Lock()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._out.flush()
            os.dup2(self._out.fileno(), 1)

    async def __aiter__(self) -> AsyncIterator[str]:
        lines, coming = anyio.create_memory_object_stream[bytes](16)
        token = anyio.lowlevel.current_token()
        thread = threading.Thread(target=self._read, args=(lines, token), name="stdin", daemon=True)
        thread.start()
        async with coming:
            async for line in coming:
                refusal = _refusal_of(line)
                if refusal is None:
                    yield line.decode()
                elif refusal:
                    await self.write(refusal)

    def _read(self, lines: Any, token: Any) -> None:
        with suppress(Exception):  # the loop has ended: there is nobody to read for
            try:
                while line := self._in.readline(MOST_LINE_BYTES + 1):
                    rest = line
                    while len(rest) > MOST_LINE_BYTES and not rest.endswith(b"\n"):
                        rest = self._in.readline(MOST_LINE_BYTES + 1)
                    anyio.from_thread.run(lines.send, line, token=token)
            finally:
                anyio.from_thread.run_sync(lines.close, token=token)

    async def write(self, text: str) -> None:
        """Writes a message and what ends it."""
        async with self._writing:
            await anyio.to_thread.run_sync(self._write, text.encode(), abandon_on_cancel=True)

    def _write(self, data: bytes) -> None:
        with suppress(BrokenPipeError):  # whoever read it has gone; the end of input tells the same
            self._out.write(data)
            self._out.flush()

    async def flush(self) -> None:
        """Everything is written at once."""


def _refusal_of(line: bytes) -> str | None:
    """What to answer to a line that the library would drop without a word; None for one that it can read, "" for none.

    A text with half a surrogate pair can be written in JSON as an escape, and is no text.
    """
    if not line.strip():
        return ""
    if len(line) > MOST_LINE_BYTES:
        begun: object = None
        with suppress(ValueError):
            begun = pydantic_core.from_json(line[:_MOST_START_BYTES], allow_partial=True)
        return _error(_id_in(begun), INVALID_REQUEST, f"a message has at most {MOST_LINE_BYTES} bytes")
    try:
        found = pydantic_core.from_json(line)
        line.decode()
    except ValueError:
        found = None
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
        return _error(_id_in(found), PARSE_ERROR, "a message is not JSON of valid Unicode on one line")
    is_sound = False
    with suppress(ValidationError):
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        # with a number that is none it is taken for a message that wants no answer
        is_sound = not (isinstance(message, JSONRPCNotification) and "id" in found)
    if not is_sound:
        return _error(_id_in(found), INVALID_REQUEST, "a message is not one of JSON-RPC 2.0, alone and with a method")
    return None


def _id_in(message: object) -> int | str | None:
    """The number that whoever sent a message waits with, where it has one."""
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None


def _error(number: int | str | None, code: int, message: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}) + "\n"
