"""Calls that last until whoever asked has gone, so that tests of leaving look at no clock."""

import threading
from typing import Any

import pytest

from precog.plugins.knowledge import Knowledge


class Held:
    """A method whose first call, while a call of the knowledge can be stopped, waits until that is stopped.

    Attributes:
        begun: set when the first call has begun.
        was_left: whether it ended because whoever asked had gone.
        num_calls: so far.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, knowledge: Knowledge, work: str, owner: type, method: str
    ) -> None:
        self.begun = threading.Event()
        self.num_calls = 0
        self.was_left = False
        self._stopped: threading.Event | None = None
        working, inner = getattr(knowledge, work), getattr(owner, method)

        def worked(*given: Any, stopped: threading.Event, **named: Any) -> Any:
            self._stopped = self._stopped or stopped
            return working(*given, stopped=stopped, **named)

        def called(*given: Any, **named: Any) -> Any:
            self.num_calls += 1
            if not self.begun.is_set():
                assert self._stopped is not None
                self.begun.set()
                self.was_left = self._stopped.wait(60)
            return inner(*given, **named)

        monkeypatch.setattr(knowledge, work, worked)
        monkeypatch.setattr(owner, method, called)
