"""A text with the questions asked of it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

__all__ = ["Ask", "Kind", "Passage"]


class Kind(IntEnum):
    """What a question is of; the numbers are those of prepared training data."""

    CLOZE = 0
    WH = 1
    SQUAD = 2
    UNANSWERABLE = 3
    KEY_VALUE = 4
    COPY = 5
    TABLE = 6
    DIALOGUE = 7


class Ask(NamedTuple):
    """A question and the characters of its passage that answer it; ``UNANSWERABLE`` ones start and stop at 0."""

    question: str
    start: int
    stop: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of at most one chunk with the questions asked of it."""

    text: str
    asks: tuple[Ask, ...]
