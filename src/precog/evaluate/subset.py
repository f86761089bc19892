"""Reproducible subsets of questions, whatever the data set, and the name of a subset."""

import random
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from precog.errors import InputError

__all__ = ["Identified", "check_questions", "ids_sha256", "sample_questions"]


@runtime_checkable
class Identified(Protocol):
    """Anything with an id of its own."""

    @property
    def id(self) -> str: ...  # noqa: D102


Q = TypeVar("Q", bound=Identified)


def sample_questions(questions: Sequence[Q], limit: int | None, seed: int) -> list[Q]:
    """The questions of ``random.Random(seed).sample(sorted(ids), limit)``, in that order; all, sorted by id, if None.

    A limit beyond their number takes all of them.
    """
    by_id = {q.id: q for q in questions}
    ids = sorted(by_id)
    if limit is not None and limit < len(ids):
        ids = random.Random(seed).sample(ids, limit)
    return [by_id[i] for i in ids]


def ids_sha256(questions: Sequence[Identified]) -> str:
    """SHA-256 of the sorted ids, one per line: names the subset a score was measured on."""
    return sha256("\n".join(sorted(q.id for q in questions)).encode()).hexdigest()


def check_questions(questions: Sequence[Identified], path: Path) -> None:
    """Refuses a file without questions, or with two of the same id.

    Raises:
        InputError: it is one.
    """
    if not questions:
        raise InputError("the question file holds no question", given=path)
    found = Counter(q.id for q in questions)
    [(most, times)] = found.most_common(1)
    if times > 1:
        raise InputError("the question file repeats an id", given=f"{most}, {times} times, in {path}")
