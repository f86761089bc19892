"""An answer as it comes, piece by piece: what is told is told once and for all, and nothing after a stop is."""

from collections.abc import Callable

OnText = Callable[[str], None]


def unheard(text: str) -> None:
    """Takes what is told to nobody."""


class Speech:
    """Hands on text as soon as it is certain to be said.

    Args:
        say: takes each piece; together the pieces are `text`.
        stops: texts before which the answer ends.
        strips: whether white space at both ends is left out.

    Attributes:
        text: what was said so far.
        has_stopped: whether one of the stops has come.
    """

    def __init__(self, say: OnText = unheard, *, stops: tuple[str, ...] = (), strips: bool = True) -> None:
        self._say, self._stops, self._strips = say, stops, strips
        self._held = ""
        self.text = ""
        self.has_stopped = False

    def push(self, piece: str) -> bool:
        """Takes a piece; returns whether the answer has come to a stop."""
        if self.has_stopped:
            return True
        self._held += piece
        found = [at for at in (self._held.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self._held = self._held[: min(found)]
            self.has_stopped = True
            self.finish()
        else:
            self._tell(len(self._held) - self._open())
        return self.has_stopped

    def hear(self, piece: str) -> None:
        """Takes a piece of an answer that goes on whatever has been said."""
        self.push(piece)

    def finish(self) -> None:
        """Tells what was held back."""
        if self._strips:
            self._held = self._held.rstrip()
        self._tell(len(self._held))
        self._held = ""

    def _open(self) -> int:
        """Characters at the end that may yet turn out to be the beginning of a stop, or the answer's last space."""
        waiting = len(self._held) - len(self._held.rstrip()) if self._strips else 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(self._held)), waiting, -1):
                if self._held.endswith(stop[:length]):
                    waiting = length
                    break
        if waiting and self._strips:  # spaces before the beginning of a stop may be the last ones, too
            waiting = len(self._held) - len(self._held[: len(self._held) - waiting].rstrip())
        return waiting

    def _tell(self, length: int) -> None:
        told, self._held = self._held[:length], self._held[length:]
        if self._strips and not self.text:
            told = told.lstrip()
        if told:
            self.text += told
            self._say(told)
