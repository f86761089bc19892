"""Which deposits a command means: by id, by what they say, by time, by speaker, or all of them."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import InputError, UsageError
from precog.memory.recall import Recaller
from precog.store.memory import Deposit, MemoryStore


@dataclass(frozen=True)
class Selection:
    """What was asked for; the conditions are joined by *and*.

    Attributes:
        ids: these deposits.
        query: the deposits that this brings back best, ``top_k`` of them.
        top_k: how many.
        after: said at this time or later; deposits without a time are not meant.
        before: said before this time.
        speaker: said by.
        everything: all of them.
    """

    ids: tuple[int, ...] = ()
    query: str | None = None
    top_k: int = 1
    after: datetime.datetime | None = None
    before: datetime.datetime | None = None
    speaker: str | None = None
    everything: bool = False

    def __post_init__(self) -> None:
        chosen = bool(self.ids or self.query or self.after or self.before or self.speaker)
        if chosen == self.everything:
            expected = "--id, --query, --before, --after or --speaker, or --all alone"
            raise UsageError("what is to be forgotten?", given="both" if chosen else "nothing", expected=expected)

    def find(self, store: MemoryStore, recaller: Recaller) -> list[Deposit]:
        """The deposits, by rising id.

        Raises:
            InputError: an id is not there.
        """
        wanted: set[int] | None = None
        if self.ids:
            wanted = set(self.ids)
            there = {deposit.id for deposit in store.deposits(ids=sorted(wanted))}
            if missing := sorted(wanted - there):
                raise InputError("there is no such deposit", given=_listed(missing), hint="see `precog memory list`")
        if self.query is not None:
            found = {evidence.deposit.id for evidence in recaller.recall(self.query, self.top_k).evidence}
            wanted = found if wanted is None else wanted & found
        return list(
            store.deposits(
                ids=None if wanted is None else sorted(wanted),
                after_utc=None if self.after is None else self.after.timestamp(),
                before_utc=None if self.before is None else self.before.timestamp(),
                speaker=self.speaker,
            )
        )


def _listed(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:5]))
    return shown if len(ids) <= 5 else f"{shown} and {len(ids) - 5} more"
