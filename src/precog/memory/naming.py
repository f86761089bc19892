"""A name for a group of texts: the words that tell it from the rest; and the kind that its recurrence suggests."""

import datetime
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain

from precog.memory.domains import OTHERS, Kind

__all__ = ["kind_of", "name_groups"]

WORDS_IN_NAME = 3
LEAST_DAYS_OF_B = 3
LEAST_SHARE_OF_B = 0.25
_WORD = re.compile(r"[^\W\d_]{3,}")
_STOP = frozenset(
    """about above after again against ain all also although always and another any anybody anyone anything are aren
    around away back because been before being below best better between both but came can cannot come could couldn
    did didn does doesn doing don done down during each either else enough even ever every everybody everyone
    everything far few first for from get gets getting give given goes going gonna good got gotta great guess guys had
    hadn has hasn have haven having hello her here hers herself hey him himself his how however into isn its itself
    just keep kind know last later least let lets like little long look looking looks lot lots made make makes making
    many may maybe mean might more most much must mustn myself need needs never new next nice nobody none nor not
    nothing now off okay once one ones only onto other others our ours ourselves out over own perhaps please pretty
    put quite rather really right said same saw say says see seem seems seen shall she should shouldn show since some
    somebody someone something sometimes soon sort still stuff such sure take taken takes taking tell than thank
    thanks that the their theirs them themselves then there these they thing things think this those though thought
    three through till too took toward try trying two under until upon use used using very via wanna want wanted was
    wasn way well went were weren what whatever when where whether which while who whole whom whose why will with
    within without won would wouldn wow yeah yep yes yet you your yours yourself yourselves
    roger copy affirmative stand standing""".split()  # noqa: SIM905  # a list would fill two screens
)


def name_groups(groups: Sequence[Sequence[str]], rest: Sequence[str] = (), taken: Collection[str] = ()) -> list[str]:
    """One name per group, of up to three words, each unlike the others.

    A word weighs by the share of the group's texts that use it, times the logarithm of how many times that is the share
    of the other texts; words of every talk weigh nothing. Names are made of what people said: whoever forgets a text
    has to name its group again.

    Args:
        groups: the texts of each group.
        rest: texts of none of them, to tell the groups from.
        taken: names that none may have.
    """
    counts = [_texts_with(texts) for texts in groups]
    background = _texts_with(rest)
    total = sum(map(len, groups)) + len(rest)
    used_by = Counter(background)
    for count in counts:
        used_by.update(count)
    seen = {name.casefold() for name in taken} | {OTHERS}
    names = []
    for number, (texts, count) in enumerate(zip(groups, counts, strict=True), start=1):
        outside = total - len(texts) + 1
        weights = {}
        for word, n in count.items():
            share, share_outside = n / len(texts), (used_by[word] - n + 1) / outside
            if n > 1 or len(texts) < 4:
                weights[word] = share * math.log(max(share / share_outside, 1.0))
        words = sorted(weights, key=lambda word: (-weights[word], word))
        names.append(_unlike(words, number, seen))
        seen.add(names[-1])
    return names


def kind_of(days: Sequence[datetime.date | None], all_days: Sequence[datetime.date | None]) -> Kind:
    """B where the members fall on many of the memory's days, A where they fall on few.

    Many is at least three days, and a quarter of all on which anything was said. A group without any dates is B:
    nothing shows that its details are worth the bytes.
    """
    own = {day for day in days if day is not None}
    everything = {day for day in all_days if day is not None}
    if not own:
        return "B"
    recurs = len(own) >= LEAST_DAYS_OF_B and len(own) >= LEAST_SHARE_OF_B * len(everything)
    return "B" if recurs else "A"


def _unlike(words: list[str], number: int, seen: set[str]) -> str:
    for end in range(WORDS_IN_NAME, len(words) + 1):
        name = " ".join([*words[: WORDS_IN_NAME - 1], words[end - 1]])
        if name not in seen:
            return name
    stem = " ".join(words[:WORDS_IN_NAME]) or "group"
    while True:
        name = stem if stem not in seen and words else f"{stem} {number}"
        if name not in seen:
            return name
        number += 1


def _texts_with(texts: Sequence[str]) -> Counter[str]:
    words = ({w for w in map(str.casefold, _WORD.findall(text)) if w not in _STOP} for text in texts)
    return Counter(chain.from_iterable(words))
