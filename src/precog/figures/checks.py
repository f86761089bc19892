"""What no picture can be drawn from is refused in one line, before anything is drawn."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from precog.errors import InputError

Number = float | int
Sign = Literal["any", "zero or more", "more than zero"]

_FARTHEST = 1e30
MOST_SERIES = 24
"""Lines of one panel, or groups of one picture: so many can be told apart by colour, dash and marker."""


def check_numbers(what: str, values: Iterable[object], *, sign: Sign = "any") -> None:
    """Refuse what has no place on an axis.

    Args:
        what: they are, for errors.
        values: numbers.
        sign: what they may be; those of a logarithmic axis are more than zero.

    Raises:
        InputError: one is no finite number, is too far away to be drawn, or has a sign it may not have.
    """
    for value in values:
        if isinstance(value, bool) or not isinstance(value, float | int) or not abs(value) < math.inf:
            raise InputError("a value of a picture is no finite number", given=f"{what}: {value!r}"[:200])
        if abs(value) > _FARTHEST or (sign == "more than zero" and 0 < value < 1 / _FARTHEST):
            raise InputError("a value of a picture is too far away to be drawn", given=f"{what}: {value!r}"[:200])
        if (value < 0 and sign != "any") or (value == 0 and sign == "more than zero"):
            raise InputError("a value of a picture has no place on its axis", given=f"{what}: {value}", expected=sign)


def check_lengths(what: str, expected: Sequence[object], *given: Sequence[object]) -> None:
    """Refuse series that do not belong together.

    Raises:
        InputError: a series has another length than the first.
    """
    for series in given:
        if len(series) != len(expected):
            raise InputError(
                "a series of a picture has not one value for each place",
                given=f"{what}: {len(series)}",
                expected=len(expected),
            )


def check_names(what: str, names: Sequence[str], *, least: int = 1, most: int = MOST_SERIES) -> None:
    """Refuse nothing at all, more than can be told apart, and two of one name.

    Raises:
        InputError: as said.
    """
    if not least <= len(names) <= most:
        message = "there is nothing to draw" if len(names) < least else "there is more than one picture can show"
        raise InputError(message, given=f"{what}: {len(names)}", expected=f"{least} to {most}")
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise InputError("two parts of a picture have one name", given=f"{what}: {twice}"[:200])
