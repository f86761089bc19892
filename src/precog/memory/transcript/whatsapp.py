"""WhatsApp exports, whose dates are written the way of the phone they come from."""

import datetime
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from precog.errors import InputError
from precog.memory.transcript.transcript import Collector

_DATE = r"(\d{1,4})([/.\-])(\d{1,2})\2(\d{1,4})"
_CLOCK = r"(\d{1,2})[:.](\d\d)(?:[:.](\d\d))?(?:\s?([ap])\.?\s?m\.?)?"
_OPENING = rf"{_DATE},?\s+{_CLOCK}"
_LINES = [  # of the two kinds of phone, which differ in how they set the time apart
    re.compile(rf"[\u200e\u200f]*{opening}(.*)", re.IGNORECASE | re.DOTALL)
    for opening in (rf"\[{_OPENING}\]\s*", rf"{_OPENING}\s+[-–]\s+")
]
_NAMED = re.compile(r"[\u200e\u200f]*([^\s:][^\n:]{0,59}?):(?:\s+|$)(.*)", re.DOTALL)

# what a phone writes in the place of media: "<Media omitted>" in any language, or marked by U+200E; and English without
_OF_PROGRAM = re.compile(
    r"\u200e.*|[\u200e\u200f]*<[^<>]{3,60}>|(image|video|audio|sticker|gif|document|contact card) omitted|"
    r".{1,120} \(file attached\)|(this message was|you) deleted( this message)?\.?",
    re.IGNORECASE,
)


class _Turn(NamedTuple):
    line: int
    date: tuple[int, str, int, int]  # first number, separator, second, third
    clock: tuple[int, int, int]
    text: str


def is_whatsapp(lines: Sequence[str]) -> bool:
    """Whether the first line that is not blank opens with such a date and time."""
    return _matched(next((line for line in lines if line.strip()), "")) is not None


def read_whatsapp(
    lines: Sequence[str], collector: Collector, zone: datetime.tzinfo | None, day_first: bool | None
) -> None:
    """Takes the turns; a line without date belongs to the turn before it.

    What the program says itself is passed over and counted: notices, which nobody speaks, and what stands for media.

    Raises:
        InputError: a date does not exist, or the dates of the file can be read in two ways.
    """
    turns: list[_Turn] = []
    for number, line in enumerate(lines, 1):
        match = _matched(line)
        if match is not None:
            turns.append(_opened(number, match))
        elif turns:
            turns[-1] = turns[-1]._replace(text=f"{turns[-1].text}\n{line}")
    day_leads = _day_leads(turns, day_first)
    for turn in turns:
        naive = _moment(turn, day_leads=day_leads)
        if naive is None:
            order = "day first" if day_leads else "month first"
            given = f"{_written(turn)} ({order})"
            raise InputError(f"line {turn.line}: there is no such date and time", given=given)
        try:
            time = naive.astimezone() if zone is None else naive.replace(tzinfo=zone)
        except (ValueError, OverflowError, OSError) as error:
            raise InputError(f"line {turn.line}: there is no such date and time", given=naive.isoformat()) from error
        named = _NAMED.fullmatch(turn.text)
        text = (
            "" if named is None else "\n".join(line for line in named[2].split("\n") if not _OF_PROGRAM.fullmatch(line))
        )
        if named is None or (named[2].strip() and not text.strip()):
            collector.skip_notice()
        else:
            collector.add(text, time, named[1])


def _matched(line: str) -> re.Match[str] | None:
    match = next((match for pattern in _LINES if (match := pattern.fullmatch(line)) is not None), None)
    if match is not None and len(match[1]) == 4 and "," not in line[: match.start(5)]:
        return None  # ISO 8601, which plain transcripts have, too
    return match


def _opened(number: int, match: re.Match[str]) -> _Turn:
    first, mark, second, third, hour, minute, second_of_minute, half, text = match.groups()
    hours = int(hour)
    if half and 1 <= hours <= 12:
        hours = hours % 12 + (12 if half in "pP" else 0)
    clock = (hours, int(minute), int(second_of_minute or 0))
    return _Turn(number, (int(first), mark, int(second), int(third)), clock, text)


def _moment(turn: _Turn, *, day_leads: bool) -> datetime.datetime | None:
    first, _, second, third = turn.date
    if first > 31:
        year, month, day = first, second, third
    else:
        year = third + 2000 if third < 100 else third
        day, month = (first, second) if day_leads else (second, first)
    try:
        return datetime.datetime(year, month, day, *turn.clock)
    except ValueError:
        return None


def _day_leads(turns: Sequence[_Turn], day_first: bool | None) -> bool:
    """Whether days stand before months: as the caller says, else as the only way in which the dates make sense.

    Dates with dots always do. Else a number over 12 tells, and else that a chat is exported in the order of time.
    """
    open_dates = [turn for turn in turns if turn.date[0] <= 31 and turn.date[1] != "."]
    if not open_dates:
        return True
    if day_first is not None:
        return day_first
    days = next((turn for turn in open_dates if turn.date[0] > 12), None)
    months = next((turn for turn in open_dates if turn.date[2] > 12), None)
    if days is not None and months is not None:
        message = f"the dates of lines {days.line} and {months.line} are written in different ways"
        raise InputError(message, expected="the day first in all of them, or the month")
    if days is not None or months is not None:
        return days is not None
    if all(turn.date[0] == turn.date[2] for turn in open_dates):
        return True
    orders = [_in_order(open_dates, day_leads=day_leads) for day_leads in (True, False)]
    if orders[0] != orders[1]:
        return orders[0]
    turn = next(turn for turn in open_dates if turn.date[0] != turn.date[2])
    raise InputError(
        f"line {turn.line}: the date can be read in two ways, and no other date of the file tells which",
        given=_written(turn),
        hint="say whether the day or the month comes first",
    )


def _written(turn: _Turn) -> str:
    first, mark, second, third = turn.date
    return f"{first:02d}{mark}{second:02d}{mark}{third:02d}"


def _in_order(turns: Sequence[_Turn], *, day_leads: bool) -> bool:
    moments = [moment for turn in turns if (moment := _moment(turn, day_leads=day_leads)) is not None]
    return all(before.date() <= after.date() for before, after in pairwise(moments))
