"""Files that SQLite has open in this process, read as bytes beside it.

Locks of files belong to a process: closing any descriptor of a file drops all that the process has on it, SQLite's
as well. Another process would then take its connections for gone, and delete the log under them. So a descriptor that
is done with is kept until the last connection is closed, as SQLite does with its own, and serves the next look.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO

LOGS = ("-wal", "-shm", "-journal")
"""How the names of what SQLite keeps beside a file end."""
Place = tuple[int, int, str]
"""Device and number of a folder, and a name in it: however the folder is called."""
_LOCK = threading.Lock()
_CONNECTIONS: Counter[Place] = Counter()
_KEPT: dict[Place, list[FileIO]] = {}


def connected(path: Path) -> Place:
    """Notes a connection that is about to be opened; `disconnected` takes what comes back.

    Raises:
        OSError: there is no such folder.
    """
    place = _place(path)
    with _LOCK:
        _CONNECTIONS[place] += 1
    return place


def disconnected(place: Place) -> None:
    """Notes that a connection is closed, and closes what was kept for the last one."""
    with _LOCK:
        _CONNECTIONS[place] -= 1
        if not _CONNECTIONS[place]:
            del _CONNECTIONS[place]
            for raw in _KEPT.pop(place, []):
                raw.close()


@contextmanager
def connection_to(path: Path) -> Iterator[None]:
    """Inside, a connection may be opened, and is closed again.

    Raises:
        OSError: there is no such folder.
    """
    place = connected(path)
    try:
        yield
    finally:
        disconnected(place)


@contextmanager
def opened_beside(path: Path) -> Iterator[BinaryIO]:
    """A file to read, whatever SQLite has open.

    Raises:
        OSError: it cannot be opened.
    """
    name = next((path.name.removesuffix(end) for end in LOGS if path.name.endswith(end)), path.name)
    place = _place(path.with_name(name))
    raw = _kept(place, path) or path.open("rb", buffering=0)
    file = BufferedReader(raw)  # a new one: what an earlier look has buffered may have changed
    try:
        yield file
    finally:
        with _LOCK:
            if place in _CONNECTIONS:
                _KEPT.setdefault(place, []).append(raw)
                file.detach()
            else:
                file.close()


def _kept(place: Place, path: Path) -> FileIO | None:
    """A descriptor of this very file that nobody reads from just now, at its beginning."""
    now = os.stat(path)
    with _LOCK:
        idle = _KEPT.get(place, [])
        for raw in idle:
            known = os.fstat(raw.fileno())
            if (known.st_dev, known.st_ino) == (now.st_dev, now.st_ino):
                idle.remove(raw)
                raw.seek(0)
                return raw
    return None


def _place(path: Path) -> Place:
    folder = os.stat(path.parent)
    return folder.st_dev, folder.st_ino, path.name
