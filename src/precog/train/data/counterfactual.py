"""Replacing entities of a text by others of their type, so that an answer must be read and cannot be recalled."""

import random
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from precog.questions.spans import Span, SpanType
from precog.questions.vocabulary import FIRST_HEADS, HEADS

__all__ = ["EntityPool", "Swap", "choose_swaps", "swap"]

_POOLED = (SpanType.PERSON, SpanType.PLACE, SpanType.NAME, SpanType.QUOTE)
_SHIFTED = re.compile(r"\b(?:1\d|20)\d\d\b")
_DIGITS = re.compile(r"\d")


class EntityPool:
    """The latest entities seen of each type; filled while reading, so it needs no pass of its own."""

    def __init__(self, size: int = 4000) -> None:
        self._size = size
        self._seen: dict[tuple[SpanType, str], deque[str]] = {}

    def add(self, text: str, spans: Sequence[Span]) -> None:
        """Remember the poolable spans of a text; one at the head of a sentence may be any word, so it is left out."""
        for span in spans:
            if span.type in _POOLED and span.start and text[span.start - 2 : span.start - 1] not in (".", "\n", ""):
                entity = text[span.start : span.stop]
                key = (span.type, _form(entity))
                self._seen.setdefault(key, deque(maxlen=self._size)).append(entity)

    def draw(self, kind: SpanType, like: str, rng: random.Random) -> str | None:
        """Another entity of the type and form; None while too few were seen."""
        seen = self._seen.get((kind, _form(like)), ())
        if len(seen) < 20:
            return None
        other = seen[rng.randrange(len(seen))]
        return other if other != like else None


def _form(entity: str) -> str:
    """What a name looks like: its head noun if that says what it is, else acronym, demonym, plural or word count."""
    last = entity.rsplit(" ", 1)[-1]
    first = entity.split(" ", 1)[0]
    if last in HEADS and last != entity:
        return last
    if first in FIRST_HEADS and first != entity:
        return first
    if entity.isupper():
        return "acronym"
    if " " not in entity:
        if entity.endswith(("ish", "ese", "ian", "ean", "ic")) or entity in ("French", "German", "Dutch", "Greek"):
            return "demonym"
        return "plural" if entity.endswith("s") else "word"
    return "words" if any(c.isdigit() for c in entity) else f"{min(entity.count(' '), 3)} spaces"


class Swap(NamedTuple):
    """A rewritten text and where its characters came from."""

    text: str
    old_edges: list[int]
    new_edges: list[int]

    def moved(self, start: int, stop: int) -> tuple[int, int]:
        """Characters of the old text in the new one; both ends must lie outside or at the edge of a replacement."""
        return self._moved(start), self._moved(stop)

    def _moved(self, position: int) -> int:
        index = bisect_right(self.old_edges, position) - 1
        return position if index < 0 else self.new_edges[index] + position - self.old_edges[index]


def swap(text: str, mapping: dict[str, str]) -> Swap:
    """``text`` with every whole-word occurrence of a key replaced by its value, longest key first."""
    if not mapping:
        return Swap(text, [], [])
    keys = sorted(mapping, key=len, reverse=True)
    pattern = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, keys)) + r")(?!\w)")
    parts, old_edges, new_edges, at, length = [], [], [], 0, 0
    for match in pattern.finditer(text):
        value = mapping[match[0]]
        parts += [text[at : match.start()], value]
        length += match.start() - at
        old_edges += [match.start(), match.end()]
        new_edges += [length, length + len(value)]
        length += len(value)
        at = match.end()
    parts.append(text[at:])
    return Swap("".join(parts), old_edges, new_edges)


def choose_swaps(text: str, spans: list[Span], pool: EntityPool, rng: random.Random, limit: int = 6) -> dict[str, str]:
    """A consistent replacement for up to ``limit`` distinct entities of a text.

    Names come from the pool, a person's surname follows its full name, all years of a text shift together, other
    numbers get new digits of the same form.
    """
    mapping: dict[str, str] = {}
    shift = rng.choice((-1, 1)) * rng.randint(2, 60)
    order = list(spans)
    rng.shuffle(order)
    for span in order:
        if len(mapping) >= limit:
            break
        old = text[span.start : span.stop]
        if old in mapping or len(old) < 2:
            continue
        new = _replacement(old, span.type, shift, pool, rng)
        if new is None or new == old or new in mapping.values():
            continue
        mapping[old] = new
        if span.type is SpanType.PERSON and " " in old and " " in new:
            surname = old.rsplit(" ", 1)[1]
            if len(surname) > 2:
                mapping.setdefault(surname, new.rsplit(" ", 1)[1])
    return mapping


def _replacement(old: str, kind: SpanType, shift: int, pool: EntityPool, rng: random.Random) -> str | None:
    if kind in _POOLED:
        return pool.draw(kind, old, rng)
    if kind in (SpanType.DATE, SpanType.YEAR) and _SHIFTED.search(old):
        return _SHIFTED.sub(lambda m: str(min(2029, max(1000, int(m[0]) + shift))), old)
    if kind in (SpanType.NUMBER, SpanType.MEASURE, SpanType.MONEY, SpanType.PERCENT) and old[0].isascii():
        first = _DIGITS.search(old)
        if first is None:
            return None
        at = first.start()
        return old[:at] + str(rng.randint(1, 9)) + _DIGITS.sub(lambda _: str(rng.randint(0, 9)), old[at + 1 :])
    return None
