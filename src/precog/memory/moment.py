"""Time stamps as people and programs write them, and the days that "yesterday" and its kin mean.

Rules suffice here, and no library is asked: a memory needs the few dozen relative expressions of everyday English, each
counted from the turn's own date. Whatever else mentions time ("soon", "on Friday", "after lunch") has no date without
knowing the world, and stays as it is: a wrong date in a key is worse than none.
"""

import datetime
import re
from email.utils import parsedate_to_datetime

from precog.errors import InputError

_EXAMPLES = "ISO 8601 such as 2023-05-08T13:56:00+02:00 or 2023-05-08, or 1:56 pm on 8 May, 2023, or seconds since 1970"
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?\s*(?P<half>[ap]\.?m\.?)?"
_DAY_FIRST = rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH},?\s+(?P<year>\d{{4}})"
_MONTH_FIRST = rf"{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})"
_SPOKEN = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for date in (_DAY_FIRST, _MONTH_FIRST)
    for pattern in (rf"{_CLOCK}\s*(?:on|,)?\s*{date}", rf"{date}(?:\s*(?:at|,)?\s*{_CLOCK})?")
)
_SECONDS = re.compile(r"\d{9,10}(?:\.\d+)?|\d{12,13}", re.ASCII)
_ISO = re.compile(r"\d{4}-?(?:\d\d|W\d\d)-?\d{1,2}(?:[T ].*)?", re.ASCII | re.IGNORECASE | re.DOTALL)
_ELAPSED = re.compile(r"([+-])?(?:(\d{1,4}):)?(\d{1,3}):(\d\d):(\d\d)(?:[.,](\d{1,6}))?", re.ASCII)
_MILLISECONDS_FROM = 1e11


def parse_time(value: str | int | float, *, zone: datetime.tzinfo | None = None) -> datetime.datetime:
    """The moment that a time stamp names, always with its zone.

    Read are ISO 8601 (a date alone is its midnight), "1:56 pm on 8 May, 2023" and its like, the dates of e-mail, and
    seconds or milliseconds since 1970. Dates such as 01/05/2023 are not: nobody can tell a day from a month there.

    Args:
        value: the time stamp.
        zone: of a time that names none; default the zone of this machine.

    Raises:
        InputError: it is none of these, or no moment of the calendar.
    """
    try:
        time = _of_text(" ".join(value.split())) if isinstance(value, str) else _of_seconds(float(value))
        if time.utcoffset() is None:
            time = time.astimezone() if zone is None else time.replace(tzinfo=zone)
        time.astimezone(datetime.UTC)  # at the calendar's ends an offset leads out of it
        return time
    except OverflowError as error:
        message = "the time stamp cannot be read: it is outside the calendar"
        raise InputError(message, given=_shown(value), expected=f"{_EXAMPLES}, of the years 1 to 9999") from error
    except (ValueError, OSError, TypeError) as error:
        raise InputError("the time stamp cannot be read", given=_shown(value), expected=_EXAMPLES) from error


def elapsed(text: str) -> datetime.timedelta:
    """The duration that ``days:hours:minutes:seconds`` or ``hours:minutes:seconds`` names, as flight logs write it.

    Raises:
        InputError: it is of another form.
    """
    match = _ELAPSED.fullmatch(text.strip())
    if match is None or int(match[4]) > 59 or int(match[5]) > 59:
        raise InputError("the elapsed time cannot be read", given=_shown(text), expected="04:13:22:59 (days first)")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    microseconds = int((fraction or "0").ljust(6, "0"))
    duration = datetime.timedelta(int(days or 0), int(seconds), microseconds, 0, int(minutes), int(hours))
    return -duration if sign == "-" else duration


def _shown(value: str | int | float) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of hundreds of digits"
    return " ".join(str(value).split())[:80] or '""'


def _of_seconds(seconds: float) -> datetime.datetime:
    if abs(seconds) >= _MILLISECONDS_FROM:
        seconds /= 1000
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _of_text(text: str) -> datetime.datetime:
    if _SECONDS.fullmatch(text):
        return _of_seconds(float(text))
    if _ISO.fullmatch(text):
        return datetime.datetime.fromisoformat(text)
    for pattern in _SPOKEN:
        match = pattern.fullmatch(text)
        if match is not None:
            return _of_match(match)
    return parsedate_to_datetime(text)


def _of_match(match: re.Match[str]) -> datetime.datetime:
    name = match["month"].lower()
    months = [number for number, month in enumerate(_MONTHS, 1) if name in (month, month[:3], month[:4])]
    if not months:
        raise ValueError(name)
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
    return datetime.datetime(int(match["year"]), months[0], int(match["day"]), hour, minute, second)


_DIGITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_NUMBERS = {word: number for number, word in enumerate(_DIGITS + _TEENS, 1)}
_NUMBERS |= {"a": 1, "an": 1, "a couple of": 2, "a couple": 2}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_COMPOUND = rf"(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_DIGITS)}))?"
_NUMBER = "|".join([r"\d{1,4}", _COMPOUND, *sorted(_NUMBERS, key=len, reverse=True)]).replace(" ", r"\s+")
_UNIT = "day|weekend|week|month|year"
_FIXED = {
    "the day before yesterday": -2,
    "the day after tomorrow": 2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "tomorrow": 1,
}
_TURN = {"this past": -1, "this last": -1, "last": -1, "this": 0, "this coming": 1, "next": 1}
_PHRASE = re.compile(
    r"(?<!\d[.,])(?<![-–])(?<!\bhalf\s)\b(?:"  # no ends of "2.5 days", "2-3 days", "half a year"
    rf"(?P<fixed>{'|'.join(_FIXED)})"
    rf"|the\s+(?P<beyond_unit>weekend|week|month|year)\s+(?P<beyond>before\s+last|after\s+next)"
    rf"|(?P<number>{_NUMBER})\s+(?P<unit>{_UNIT})s?\s+(?P<way>ago|from\s+now)"
    rf"|in\s+(?!an?\s+day)(?P<in_number>{_NUMBER})\s+(?P<in_unit>{_UNIT})s?(?!\s+(?:ago|before|of|or|and)\b)"
    # "the last week of June" and "over the last year" are other weeks and years
    rf"|(?<!\bthe\s)(?P<turn>{'|'.join(sorted(_TURN, key=len, reverse=True))})"
    rf"\s+(?P<what>weekend|week|month|year|{'|'.join(_WEEKDAYS)}|mon|tues?|wed|thurs?|fri)"
    r")\b".replace(" ", r"\s+"),
    re.IGNORECASE | re.ASCII,
)


def resolve(text: str, time: datetime.datetime | None) -> tuple[tuple[str, str], ...]:
    """The relative times in a text with what they mean, counted from the date the text was said on.

    A day is ``2023-05-07``; what is no day is ``week of 2023-05-01`` (its Monday), ``weekend of 2023-05-06`` (its
    Saturday), ``2023-04`` or ``2022``. Weeks begin on Monday. "Last Friday" is the Friday before today, "this Friday"
    that of this week, "next Friday" that of the week after.

    Args:
        text: any text.
        time: when it was said; its own zone's date counts. None resolves nothing.

    Returns:
        Phrases in lower case, each once, in the order of the text.
    """
    if time is None:
        return ()
    found: dict[str, str] = {}
    for match in _PHRASE.finditer(text):
        phrase = " ".join(match[0].lower().split())
        try:
            meaning = _meaning(match, time.date())
        except (OverflowError, ValueError):  # outside the calendar
            continue
        found.setdefault(phrase, meaning)
    return tuple(found.items())


def in_words(iso: str) -> str:
    """What `resolve` found as people write it: ``7 May 2023``, ``week of 1 May 2023``, ``April 2023``, ``2022``."""
    lead, _, date = iso.rpartition(" ")
    numbers = [int(number) for number in date.split("-")]
    words = [str(numbers[0])]
    if len(numbers) > 1:
        words.insert(0, _MONTHS[numbers[1] - 1].capitalize())
    if len(numbers) > 2:
        words.insert(0, str(numbers[2]))
    return " ".join([lead, *words] if lead else words)


def _meaning(match: re.Match[str], day: datetime.date) -> str:
    if match["fixed"]:
        return _moved(day, "day", _FIXED[" ".join(match["fixed"].lower().split())])
    if match["beyond"]:
        return _moved(day, match["beyond_unit"].lower(), -2 if match["beyond"].lower().startswith("before") else 2)
    if match["number"]:
        sign = -1 if match["way"].lower() == "ago" else 1
        return _moved(day, match["unit"].lower(), sign * _count(match["number"]))
    if match["in_number"]:
        return _moved(day, match["in_unit"].lower(), _count(match["in_number"]))
    turn, what = " ".join(match["turn"].lower().split()), match["what"].lower()
    step = _TURN[turn]
    weekday = next((number for number, name in enumerate(_WEEKDAYS) if name[:3] == what[:3]), None)
    if weekday is None or what == "month":
        return _moved(day, what, step)
    ahead = weekday - day.weekday()
    if turn == "this coming":  # the first after today
        return _moved(day, "day", ahead if ahead > 0 else ahead + 7)
    if step == -1:
        return _moved(day, "day", ahead if ahead < 0 else ahead - 7)
    return _moved(day, "day", ahead + 7 * step)


def _count(number: str) -> int:
    if number.isdigit():
        return int(number)
    words = number.lower().replace("-", " ").split()
    if words[0] in _TENS:
        return _TENS[words[0]] + (_NUMBERS[words[1]] if words[1:] else 0)
    return _NUMBERS[" ".join(words)]


def _moved(day: datetime.date, unit: str, steps: int) -> str:
    if unit == "day":
        return (day + datetime.timedelta(steps)).isoformat()
    if unit in ("week", "weekend"):
        monday = day + datetime.timedelta(7 * steps - day.weekday())
        first = monday + datetime.timedelta(5 if unit == "weekend" else 0)
        return f"{unit} of {first.isoformat()}"
    months = day.year * 12 + day.month - 1 + (steps if unit == "month" else 12 * steps)
    if not 12 <= months < 12 * 10_000:
        raise OverflowError("outside the calendar")
    return f"{months // 12:04d}-{months % 12 + 1:02d}" if unit == "month" else f"{months // 12:04d}"
