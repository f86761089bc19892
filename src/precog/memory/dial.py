"""The K-dial: how many states of a chunk are retained, and at which of its tokens (paper §5.2).

K counts token positions within one chunk. K = N_c, every token, is about 96 MB for 512 tokens of the paper's model;
K = 1 is the chunk's own state. Positions are counted from the end of the chunk, which is always one of them, so that
the levels N_c/k of one chunk lie inside each other and several of them need no second reading.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import InputError, UsageError

_FORMS = "all, a number such as 1 or 8, or a stride such as /4"
_MOST_DIGITS = 9


@dataclass(frozen=True)
class Dial:
    """One setting of the dial: a number of states per chunk, or a stride in tokens. Exactly one of the two is given.

    Attributes:
        count: K, states per chunk, spread evenly; a shorter chunk has one per token. 0 where there is a stride.
        stride: k of K = N_c/k: one state every k tokens, back from the chunk's end; 1 is every token. 0 where there is
            a count.
    """

    count: int = 0
    stride: int = 0

    def __post_init__(self) -> None:
        if min(self.count, self.stride) < 0 or (self.count > 0) == (self.stride > 0):
            given = f"count {self.count}, stride {self.stride}"
            raise UsageError("the dial K needs a number of states or a stride", given=given, expected=_FORMS)

    @classmethod
    def parse(cls, text: str) -> "Dial":
        """``all`` (K = N_c), ``/4`` (K = N_c/4), or a number of states such as ``8``.

        Raises:
            UsageError: anything else; K = 0 in particular, which would retain nothing.
        """
        name = text.strip()
        if name == "all":
            return cls(stride=1)
        digits = name.removeprefix("/")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS and int(digits)):
            hint = "a chunk keeps at least the state of its last token" if digits.strip("0") == "" and digits else None
            raise UsageError("no such setting of the K-dial", given=text, expected=_FORMS, hint=hint)
        return cls(stride=int(digits)) if name.startswith("/") else cls(count=int(digits))

    def __str__(self) -> str:
        if self.count:
            return str(self.count)
        return "all" if self.stride == 1 else f"/{self.stride}"

    def num_states(self, num_tokens: int) -> int:
        """K for a chunk of so many tokens.

        Raises:
            InputError: the chunk has no token.
        """
        if num_tokens < 1:
            raise InputError("a chunk needs tokens to retain states of", given=f"{num_tokens} tokens")
        return min(self.count, num_tokens) if self.count else -(-num_tokens // self.stride)

    def positions(self, num_tokens: int) -> tuple[int, ...]:
        """Tokens read at each retained state: rising, evenly spaced, the last one the whole chunk.

        Raises:
            InputError: the chunk has no token.
        """
        number = self.num_states(num_tokens)
        if self.count:
            return tuple(-(-i * num_tokens // number) for i in range(1, number + 1))
        return tuple(range(num_tokens - (number - 1) * self.stride, num_tokens + 1, self.stride))


def joint_positions(dials: Sequence[Dial], num_tokens: int) -> tuple[int, ...]:
    """What must be read off one pass over a chunk to serve several levels at once, rising.

    Raises:
        InputError: the chunk has no token, or no level was asked for.
    """
    if not dials:
        raise InputError("which levels of the dial?", given="none", expected="at least one")
    return tuple(sorted({position for dial in dials for position in dial.positions(num_tokens)}))


def moments(
    positions: Sequence[int],
    num_tokens: int,
    time: datetime.datetime | None,
    end: datetime.datetime | None = None,
) -> tuple[datetime.datetime | None, ...]:
    """The time stamp of each retained state.

    Args:
        positions: tokens read at each.
        num_tokens: of the chunk.
        time: when the turn was said, or began.
        end: when it ended; then a state after p of n tokens is stamped p/n of the way, otherwise all with ``time``.

    Returns:
        One per position; None throughout where no time is known.

    Raises:
        InputError: the end is before the beginning, stands alone, or one of the two has no zone; or a position lies
            outside the chunk.
    """
    if num_tokens < 1 or any(not 1 <= position <= num_tokens for position in positions):
        raise InputError("a state lies outside its chunk", given=list(positions), expected=f"1 to {num_tokens}")
    if any(moment is not None and moment.tzinfo is None for moment in (time, end)):
        raise InputError("a time stamp has no zone", given=time, expected="an aware date and time")
    if end is None:
        return (time,) * len(positions)
    if time is None or end < time:
        raise InputError("a turn ends before it begins", given=f"{time} to {end}", expected="a time, and a later one")
    # in UTC, where a span of time is what it says; shown in the zone it began in
    begun = time.astimezone(datetime.UTC)
    length = end.astimezone(datetime.UTC) - begun
    return tuple((begun + length * position / num_tokens).astimezone(time.tzinfo) for position in positions)
