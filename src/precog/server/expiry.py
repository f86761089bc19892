"""Stored responses go when their time is over, whether their users come back or not."""

import threading

from precog.errors import PrecogError
from precog.server.settings import ServerSettings
from precog.server.tenant import response_folders
from precog.store.responses import ResponseFolder

EVERY_SEC = 3600.0


class Expiry:
    """A thread that looks through every user's responses, at once and then every hour.

    Args:
        settings: of the server.
        stopping: ends it.
    """

    def __init__(self, settings: ServerSettings, stopping: threading.Event) -> None:
        self._settings, self._stopping = settings, stopping
        self._thread = threading.Thread(target=self._run, name="expiry", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def close(self) -> None:
        """Waits until it has noticed that the server stops."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            sweep(self._settings)
            self._stopping.wait(EVERY_SEC)


def sweep(settings: ServerSettings) -> int:
    """Removes what has expired of every user; returns how many responses. A folder that refuses is left for later."""
    gone = 0
    for folder in response_folders(settings):
        try:
            gone += ResponseFolder(folder).sweep()
        except PrecogError:
            continue
    return gone
