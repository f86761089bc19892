"""Which deposits a command means: by id, by what they say, by time, by speaker, or all of them."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import InputError, UsageError
from precog.memory.recall import Evidence, Recaller
from precog.store.memory import Deposit, MemoryStore

_COMMON = frozenset(
    ["about", "from", "have", "said", "that", "their", "there", "they", "this", "were", "what", "when", "with"]
)
LEAST_COSINE = 0.3
"""Of a query and what it is to forget, where they share no word. The nearest of 300 turns to seven queries that had
nothing to do with them came to 0.15 to 0.29; "my allergy" and "I am allergic to peanuts" to 0.57."""


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
        for option, words in (("--query", self.query), ("--speaker", self.speaker)):
            if words is not None and not words.strip():
                raise UsageError("an option says nothing", given=f'{option} ""', expected="words, or no such option")
        conditions = (self.query, self.after, self.before, self.speaker)
        chosen = bool(self.ids) or any(condition is not None for condition in conditions)
        if chosen == self.everything:
            expected = "--id, --query, --before, --after or --speaker, or --all alone"
            raise UsageError("what is to be forgotten?", given="both" if chosen else "nothing", expected=expected)

    def find(self, store: MemoryStore, recaller: Recaller) -> list[Deposit]:
        """The deposits, by rising id; damaged ones are left out, see `damaged`.

        Time and speaker are compared with what the seal of each deposit covers, not with an index of them.

        Raises:
            InputError: an id is not there, or nothing says what the query says.
        """
        wanted: set[int] | None = None
        if self.ids:
            wanted = set(self.ids)
            there = {deposit.id for deposit in store.deposits(ids=sorted(wanted), only_sound=True)}
            there |= set(store.damaged_ids(sorted(wanted), unfinished=True))
            if missing := sorted(wanted - there):
                raise InputError("there is no such deposit", given=_listed(missing), hint="see `precog memory list`")
        if self.query is not None:
            found = _meant(self.query, recaller.recall(self.query, self.top_k).evidence)
            wanted = found if wanted is None else wanted & found
        ids = None if wanted is None else sorted(wanted)
        return [deposit for deposit in store.deposits(ids=ids, only_sound=True) if self._fits(deposit)]

    def _fits(self, deposit: Deposit) -> bool:
        said_at = deposit.info.time_utc
        if self.after is not None and (said_at is None or said_at < self.after.timestamp()):
            return False
        if self.before is not None and (said_at is None or said_at >= self.before.timestamp()):
            return False
        return self.speaker is None or deposit.info.speaker == self.speaker

    def damaged(self, store: MemoryStore) -> list[int]:
        """Damaged and lost deposits that are meant, and those half forgotten: by their ids alone, or all."""
        if self.everything:
            return store.damaged_ids(unfinished=True)
        if any(condition is not None for condition in (self.query, self.after, self.before, self.speaker)):
            return []
        return store.damaged_ids(sorted(set(self.ids)), unfinished=True)


def _meant(query: str, evidence: Sequence[Evidence]) -> set[int]:
    """What is found and bears on the query: the nearest of a memory may have nothing to do with it."""
    words = _words(query)
    meant = {e.deposit.id for e in evidence if e.cosine >= LEAST_COSINE or words & _words(e.deposit.info.key_text)}
    if evidence and not meant:
        nearest = evidence[0]
        raise InputError(
            "nothing that is remembered says that",
            given=query,
            expected=f"nearest is deposit {nearest.deposit.id} (cosine {nearest.cosine:.2f})",
            hint=f"if that is meant: --id {nearest.deposit.id}",
        )
    return meant


def _words(text: str) -> set[str]:
    """Those that carry meaning, roughly: of four letters or more, without the commonest."""
    return {word for word in re.findall(r"\w+", text.casefold()) if len(word) >= 4} - _COMMON


def _listed(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:5]))
    return shown if len(ids) <= 5 else f"{shown} and {len(ids) - 5} more"
