"""Corpora that stay open between requests: asking costs a search and the records it loads, no catalogue, no index."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from precog.corpus.search import Searcher
from precog.encoders import Encoder
from precog.errors import MissingError

MOST_OPEN = 32


@dataclass
class _Entry:
    """An open corpus, how many requests use it, and whether it is to be closed by the last of them."""

    searcher: Searcher
    users: int = 0
    is_leaving: bool = False


class OpenCorpora:
    """Searchers by folder; those that were not used for longest are closed first.

    Args:
        encoder: of sentences, open.
        most: corpora that stay open while nobody uses them.
        on_open: called whenever one has been opened.
    """

    def __init__(self, encoder: Encoder, most: int = MOST_OPEN, on_open: Callable[[], None] = lambda: None) -> None:
        self._encoder, self._most, self._on_open = encoder, most, on_open
        self._changed = threading.Condition()
        self._entries: OrderedDict[Path, _Entry] = OrderedDict()
        self._users: dict[Path, int] = {}
        self._opening: dict[Path, threading.Lock] = {}
        self._closed_to_all: set[Path] = set()

    @contextmanager
    def searching(self, folder: Path) -> Iterator[Searcher]:
        """A corpus, open for as long as the block lasts, and perhaps used by others at the same time.

        Raises:
            MissingError: it is being deleted.
            CorpusError, EncoderError: it cannot be opened.
        """
        entry = self._take(folder)
        try:
            yield entry.searcher
        finally:
            self._give_back(folder, entry)

    def drop(self, folder: Path) -> None:
        """Closes a corpus that has changed as a whole, now or when the last request is done with it."""
        with self._changed:
            self._retire(folder)

    @contextmanager
    def closed(self, folder: Path, wait_sec: float) -> Iterator[None]:
        """Inside, nobody comes in any more; waits first, but not for ever, for those who are in."""
        with self._changed:
            self._closed_to_all.add(folder)
            self._retire(folder)
            deadline = time.monotonic() + wait_sec
            while self._users.get(folder) and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
        try:
            yield
        finally:
            with self._changed:
                self._closed_to_all.discard(folder)
                self._opening.pop(folder, None)

    def close(self) -> None:
        """Closes all."""
        with self._changed:
            for folder in list(self._entries):
                self._retire(folder)

    def _take(self, folder: Path) -> _Entry:
        with self._changed:
            opening = self._opening.setdefault(folder, threading.Lock())
        with opening:  # whoever comes while it is opened waits, and does not open it again
            if (entry := self._find(folder)) is not None:
                return entry
            searcher = Searcher(folder, encoder=self._encoder)
            self._on_open()
            with self._changed:
                if folder in self._closed_to_all:
                    searcher.close()
                    raise MissingError("this corpus is being deleted", given=folder.name)
                self._retire(folder)
                entry = _Entry(searcher, 1)
                self._entries[folder] = entry
                self._users[folder] = self._users.get(folder, 0) + 1
                self._trim()
                return entry

    def _find(self, folder: Path) -> _Entry | None:
        with self._changed:
            if folder in self._closed_to_all:
                raise MissingError("this corpus is being deleted", given=folder.name)
            entry = self._entries.get(folder)
            if entry is None:
                return None
            if entry.searcher.store.fate != "there":
                self._retire(folder)
                return None
            self._entries.move_to_end(folder)
            entry.users += 1
            self._users[folder] = self._users.get(folder, 0) + 1
            return entry

    def _give_back(self, folder: Path, entry: _Entry) -> None:
        with self._changed:
            entry.users -= 1
            self._users[folder] -= 1
            if not self._users[folder]:
                del self._users[folder]
            if entry.is_leaving and not entry.users:
                entry.searcher.close()
            self._trim()
            self._changed.notify_all()

    def _trim(self) -> None:
        """Closes those that nobody uses, the longest unused first, while there are too many."""
        for idle in [folder for folder, entry in self._entries.items() if not entry.users]:
            if len(self._entries) > self._most:
                self._retire(idle)

    def _retire(self, folder: Path) -> None:
        entry = self._entries.pop(folder, None)
        if entry is not None:
            entry.is_leaving = True
            if not entry.users:
                entry.searcher.close()
