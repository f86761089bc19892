"""Whose turn it is: users one after the other, of each its kinds of requests likewise, of a kind what came first."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Generic, TypeVar

from precog.serving.request import Request

R = TypeVar("R", bound=Request[Any])
_REMEMBERED = 4096  # users whose last turn is known though they wait for nothing


class Turns(Generic[R]):
    """Requests that wait.

    Args:
        kind: of a request; all are of one when left out.
    """

    def __init__(self, kind: Callable[[R], Hashable] = lambda _: None) -> None:
        self._kind = kind
        self._lines: dict[str, deque[R]] = {}
        self._last: dict[str, int] = {}
        self._last_of_kind: dict[tuple[str, Hashable], int] = {}
        self._clock = 0

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, request: R) -> None:
        """The request stands at the end of its user's line."""
        self._lines.setdefault(request.user, deque()).append(request)

    def in_turn(self, load: Mapping[str, int] | None = None) -> list[R]:
        """All that wait, in the order of their turns.

        Args:
            load: what each user has of the model now; whoever has less is before whoever has more, and among equals
                whoever had no turn for longest.
        """
        load = load or {}
        users = sorted(self._lines, key=lambda user: (load.get(user, 0), self._last.get(user, 0)))
        return _one_each(self._own_in_turn(user) for user in users)

    def _own_in_turn(self, user: str) -> list[R]:
        kinds: dict[Hashable, list[R]] = {}
        for request in self._lines[user]:
            kinds.setdefault(self._kind(request), []).append(request)
        order = sorted(kinds, key=lambda kind: self._last_of_kind.get((user, kind), 0))
        return _one_each(kinds[kind] for kind in order)

    def had(self, requests: Sequence[R]) -> None:
        """These had their turn, the first one's; they may wait for another one, before it whoever only came along."""
        for request in [*requests[1:], *requests[:1]]:
            self._clock += 1
            self._last[request.user] = self._clock
            self._last_of_kind[request.user, self._kind(request)] = self._clock
        if len(self._last) > _REMEMBERED:
            self._last = {user: last for user, last in self._last.items() if user in self._lines}
            self._last_of_kind = {of: last for of, last in self._last_of_kind.items() if of[0] in self._lines}

    def drop(self, leaves: Callable[[R], bool]) -> list[R]:
        """Takes requests out of their lines."""
        gone: list[R] = []
        for user, line in list(self._lines.items()):
            leaving = [request for request in line if leaves(request)]
            if not leaving:
                continue
            gone += leaving
            staying = deque(request for request in line if request not in leaving)
            if staying:
                self._lines[user] = staying
            else:
                del self._lines[user]
        return gone


def _one_each(lines: Iterable[Iterable[R]]) -> list[R]:
    """The first of every line, then the second of every line, and so on."""
    return [request for turn in zip_longest(*lines) for request in turn if request is not None]
