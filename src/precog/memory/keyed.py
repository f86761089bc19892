"""Deposits as clustering sees them: ids, keys, texts and days, row by row."""

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from jaxtyping import Float32, Int

from precog.errors import InputError, UsageError

__all__ = ["Keyed", "nothing_to", "one_thread", "sklearn_part"]

_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Keyed:
    """N deposits.

    Attributes:
        ids: of the deposits, each once.
        keys: [N, E], unit norm; of a text with several windows their mean.
        texts: what was said.
        days: on which it was said; None where that is not known.
    """

    ids: tuple[int, ...]
    keys: Float32[np.ndarray, "N E"]
    texts: tuple[str, ...]
    days: tuple[datetime.date | None, ...]

    def __post_init__(self) -> None:
        """Checks that the columns are of one length, the ids differ, and the keys are unit vectors.

        Raises:
            InputError: they do not.
        """
        lengths = [len(self.ids), len(self.keys), len(self.texts), len(self.days)]
        if len(set(lengths)) != 1 or len(set(self.ids)) != len(self.ids):
            raise InputError("deposits to be clustered need an id, a key, a text and a day each", given=lengths)
        if not (np.abs(np.linalg.norm(self.keys, axis=1) - 1) < _UNIT_TOLERANCE).all():
            raise InputError("the key of a deposit to be clustered is a unit vector")

    def take(self, rows: Sequence[int] | Int[np.ndarray, " n"]) -> "Keyed":
        """Some of them, in the order given."""
        return Keyed(
            tuple(self.ids[row] for row in rows),
            self.keys[np.asarray(rows, dtype=np.int64)],
            tuple(self.texts[row] for row in rows),
            tuple(self.days[row] for row in rows),
        )


def nothing_to(what: str, domain: str | None = None) -> InputError:
    """The error of a command that finds no deposit: in a memory, or in one domain of it."""
    given = "0 deposits" + (f" of {domain}" if domain else "")
    hint = "remember something first: precog memory remember TEXT --user USER"
    return InputError(what, given=given, expected="at least 1", hint=hint)


def sklearn_part(name: str) -> ModuleType:
    """A module of scikit-learn, loaded when it is first needed.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    from importlib import import_module

    try:
        return import_module(f"sklearn.{name}")
    except ImportError as error:
        hint = "pip install 'precog-ssm[memory]'"
        raise UsageError("clustering needs a package that is not installed", given="scikit-learn", hint=hint) from error


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, scikit-learn adds in one order: over threads the last bits would differ, and with them a label or two."""
    sklearn_part("base")
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    with threadpool_limits(limits=1):
        yield
