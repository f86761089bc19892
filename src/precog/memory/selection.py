"""Which deposits a command means: by id, by what they say, by time, by speaker, or all of them."""

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import InputError, UsageError
from precog.memory.recall import Evidence, Recaller
from precog.memory.utterance import has_words
from precog.store.memory import Deposit, MemoryStore

_COMMON = frozenset(
    ["about", "from", "have", "said", "that", "their", "there", "they", "this", "were", "what", "when", "with"]
)
LEAST_COSINE = 0.4
"""Of a query and what it is to forget, where the words they share do not tell. What has nothing to do with it comes
to 0.35 at most ("Robert" and "abc"); "my allergy" and "I am allergic to peanuts" to 0.58."""
_LEAST_SHARED = 2
_RARE_SHARE, _RARE_COUNT = 0.1, 3
_MOST_NAMED = 10


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
        if self.after is not None and self.before is not None and self.after >= self.before:
            given = f"{self.after.isoformat()} to {self.before.isoformat()}"
            raise UsageError("--after is not before --before", given=given, expected="a time, and a later one")

    def find(self, store: MemoryStore, recaller: Recaller) -> list[Deposit]:
        """The deposits, by rising id; damaged ones are left out, see `damaged`.

        Time and speaker are compared with what the seal of each deposit covers, not with an index of them.

        Raises:
            InputError: an id is not there, nothing says what the query says, or nothing fits all conditions.
        """
        wanted: set[int] | None = None
        if self.ids:
            wanted = set(self.ids)
            there = {deposit.id for deposit in store.deposits(ids=sorted(wanted), only_sound=True)}
            there |= set(store.damaged_ids(sorted(wanted), unfinished=True))
            if missing := sorted(wanted - there):
                raise InputError("there is no such deposit", given=_listed(missing), hint="see `precog memory list`")
        if self.query is not None:
            found = _meant(self.query, recaller.recall(self.query, self.top_k).evidence, store)
            wanted = found if wanted is None else wanted & found
        ids = None if wanted is None else sorted(wanted)
        fitting = [deposit for deposit in store.deposits(ids=ids, only_sound=True) if self._fits(deposit)]
        if not fitting and any(given is not None for given in (self.query, self.after, self.before, self.speaker)):
            raise self._nothing(store)
        return fitting

    def _nothing(self, store: MemoryStore) -> InputError:
        """The refusal where there is nothing to forget: whoever asked meant something."""
        asked = {"--id": self.ids or None, "--query": self.query, "--speaker": self.speaker}
        times = {"--after": self.after, "--before": self.before}
        given = [
            f"{name} {_listed(value) if isinstance(value, tuple) else value}" for name, value in asked.items() if value
        ]
        given += [f"{name} {time.isoformat()}" for name, time in times.items() if time is not None]
        message = "nothing that is remembered fits"
        if self.speaker is None:
            return InputError(message, given=", ".join(given), hint="see `precog memory list`")
        return InputError(message, given=", ".join(given), expected=f"a speaker that there is: {speakers_of(store)}")

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


def speakers_of(store: MemoryStore) -> str:
    """Who speaks in a memory, for people: at most ten, by name."""
    names = sorted({entry.info.speaker for entry in store.deposits(only_sound=True) if entry.info.speaker is not None})
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more or "nobody is noted"


def _meant(query: str, evidence: Sequence[Evidence], store: MemoryStore) -> set[int]:
    """What is found and bears on the query: the nearest of a memory may have nothing to do with it.

    It is near enough, or shares all words of the query that carry meaning, or several that are rare in this memory.
    What has no words, query or text, says nothing.
    """
    words = _words(query) or _all_words(query)
    said = {entry.deposit.id: _all_words(entry.deposit.info.key_text) for entry in evidence}
    shared = set[str]().union(*(words & own for own in said.values()))
    rare = _rare(shared, store) if len(shared) >= _LEAST_SHARED else set()
    meant = {
        entry.deposit.id
        for entry in evidence
        if words
        and has_words(entry.deposit.info.text)
        and (
            entry.cosine >= LEAST_COSINE
            or words <= said[entry.deposit.id]
            or len(rare & said[entry.deposit.id]) >= _LEAST_SHARED
        )
    }
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
    return {word for word in _all_words(text) if len(word) >= 4} - _COMMON


def _all_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _rare(words: set[str], store: MemoryStore) -> set[str]:
    """Those that few deposits have: the name of who speaks is in most."""
    counts: Counter[str] = Counter()
    total = 0
    for deposit in store.deposits(superseded=False, only_sound=True):
        counts.update(words & _all_words(deposit.info.key_text))
        total += 1
    return {word for word in words if counts[word] <= max(_RARE_COUNT, _RARE_SHARE * total)}


def _listed(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:5]))
    return shown if len(ids) <= 5 else f"{shown} and {len(ids) - 5} more"
