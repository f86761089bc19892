"""Time stamps, and the days that relative expressions mean."""

import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import InputError
from precog.memory.moment import elapsed, in_words, parse_time, resolve

UTC = datetime.UTC
OSLO = datetime.timezone(datetime.timedelta(hours=2))
MONDAY = datetime.datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
SUNDAY = datetime.datetime(2023, 5, 14, 22, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given_time", "iso"),
    [
        ("2023-05-08T13:56:00Z", "2023-05-08T13:56:00+00:00"),
        ("2023-05-08T13:56:00.250-05:30", "2023-05-08T13:56:00.250000-05:30"),
        ("20230508T1356Z", "2023-05-08T13:56:00+00:00"),
        ("2023-05-08", "2023-05-08T00:00:00+02:00"),
        (" 2023-05-08  13:56 ", "2023-05-08T13:56:00+02:00"),
        ("2023-W19-1", "2023-05-08T00:00:00+02:00"),
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00+02:00"),
        ("12:09 am on 13 September, 2023", "2023-09-13T00:09:00+02:00"),
        ("12:30 PM on 1 Sept 2023", "2023-09-01T12:30:00+02:00"),
        ("8 May 2023", "2023-05-08T00:00:00+02:00"),
        ("May 8th, 2023 at 1:56 p.m.", "2023-05-08T13:56:00+02:00"),
        ("May 8, 2023, 13:56:07", "2023-05-08T13:56:07+02:00"),
        ("Mon, 08 May 2023 13:56:00 +0000", "2023-05-08T13:56:00+00:00"),
        ("1683554160", "2023-05-08T13:56:00+00:00"),
        ("1683554160.5", "2023-05-08T13:56:00.500000+00:00"),
        (1683554160, "2023-05-08T13:56:00+00:00"),
        (1683554160000, "2023-05-08T13:56:00+00:00"),
    ],
)
def test_a_time_stamp_has_its_own_zone_or_the_given_one(given_time: str | int, iso: str) -> None:
    assert parse_time(given_time, zone=OSLO).isoformat() == iso


def test_a_time_without_zone_gets_that_of_the_machine() -> None:
    time = parse_time("2023-05-08T13:56:00")
    assert time == datetime.datetime(2023, 5, 8, 13, 56).astimezone()
    assert time.utcoffset() is not None


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "soon",
        "2023-13-01",
        "2023-02-30",
        "01/05/2024",
        "25:00 on 8 May 2023",
        "13:00 pm on 8 May, 2023",
        "8 Mai 2023",
        "0001-01-01T00:00:00+10:00",
        "9999-12-31T23:59:59-10:00",
        "99999999999999999999",
        "10:00",
        "2023",
    ],
)
def test_what_is_no_time_stamp_is_refused_with_an_example(bad: str) -> None:
    with pytest.raises(InputError, match="the time stamp cannot be read") as caught:
        parse_time(bad, zone=UTC)
    assert caught.value.given == (bad or '""')
    assert "2023-05-08T13:56:00+02:00" in str(caught.value.expected)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300, -1e300, 10**400])
def test_numbers_beyond_the_calendar_are_refused(bad: float | int) -> None:
    with pytest.raises(InputError, match="the time stamp cannot be read"):
        parse_time(bad)


@given(st.text(max_size=40) | st.integers() | st.floats())
def test_anything_is_a_time_with_zone_or_refused(value: str | int | float) -> None:
    try:
        time = parse_time(value)
    except InputError as error:
        said = str(error)
    else:
        said = time.isoformat()
        assert time.utcoffset() is not None
    assert "\n" not in said


@given(st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2999, 1, 1)), st.sampled_from([UTC, OSLO]))
def test_iso_stamps_come_back(naive: datetime.datetime, zone: datetime.tzinfo) -> None:
    time = naive.replace(tzinfo=zone)
    assert parse_time(time.isoformat()) == time
    assert parse_time(naive.isoformat(sep=" "), zone=zone) == time


def test_elapsed_times() -> None:
    assert elapsed("04:13:22:59") == datetime.timedelta(days=4, hours=13, minutes=22, seconds=59)
    assert elapsed("-00:00:00:10") == datetime.timedelta(seconds=-10)
    assert elapsed("01:02:03") == datetime.timedelta(hours=1, minutes=2, seconds=3)
    assert elapsed("00:00:01,5") == datetime.timedelta(seconds=1.5)
    for bad in ("", "12", "00:61:00", "a:b:c:d", "1:2:3"):
        with pytest.raises(InputError, match="elapsed time cannot be read"):
            elapsed(bad)


@pytest.mark.parametrize(
    ("said", "day", "meaning"),
    [
        ("I went yesterday.", MONDAY, "2023-05-07"),
        ("YESTERDAY, all my troubles", MONDAY, "2023-05-07"),
        ("I am here today", MONDAY, "2023-05-08"),
        ("tomorrow then", MONDAY, "2023-05-09"),
        ("see you tonight!", MONDAY, "2023-05-08"),
        ("this morning it rained", MONDAY, "2023-05-08"),
        ("this afternoon", MONDAY, "2023-05-08"),
        ("this evening", MONDAY, "2023-05-08"),
        ("last night", MONDAY, "2023-05-07"),
        ("the day before yesterday", MONDAY, "2023-05-06"),
        ("the day  after\ntomorrow", MONDAY, "2023-05-10"),
        ("last week", MONDAY, "week of 2023-05-01"),
        ("this week", MONDAY, "week of 2023-05-08"),
        ("next week", MONDAY, "week of 2023-05-15"),
        ("next week", SUNDAY, "week of 2023-05-15"),
        ("the week before last", MONDAY, "week of 2023-04-24"),
        ("the week after next", MONDAY, "week of 2023-05-22"),
        ("last month", MONDAY, "2023-04"),
        ("this month", MONDAY, "2023-05"),
        ("next month", MONDAY, "2023-06"),
        ("the month before last", MONDAY, "2023-03"),
        ("last year", MONDAY, "2022"),
        ("this year", MONDAY, "2023"),
        ("next year", MONDAY, "2024"),
        ("last weekend", MONDAY, "weekend of 2023-05-06"),
        ("this past weekend", MONDAY, "weekend of 2023-05-06"),
        ("this weekend", MONDAY, "weekend of 2023-05-13"),
        ("next weekend", MONDAY, "weekend of 2023-05-20"),
        ("last weekend", SUNDAY, "weekend of 2023-05-06"),
        ("this weekend", SUNDAY, "weekend of 2023-05-13"),
        ("two weekends ago", MONDAY, "weekend of 2023-04-29"),
        ("last Friday", MONDAY, "2023-05-05"),
        ("last Tues.", MONDAY, "2023-05-02"),
        ("last Monday", MONDAY, "2023-05-01"),
        ("last Saturday", SUNDAY, "2023-05-13"),
        ("this Friday", MONDAY, "2023-05-12"),
        ("next Friday", MONDAY, "2023-05-19"),
        ("this coming Friday", MONDAY, "2023-05-12"),
        ("this\ncoming Monday", MONDAY, "2023-05-15"),
        ("3 days ago", MONDAY, "2023-05-05"),
        ("three days ago", MONDAY, "2023-05-05"),
        ("a couple of days ago", MONDAY, "2023-05-06"),
        ("twenty-one days ago", MONDAY, "2023-04-17"),
        ("2 weeks ago", MONDAY, "week of 2023-04-24"),
        ("a week ago", MONDAY, "week of 2023-05-01"),
        ("six months ago", MONDAY, "2022-11"),
        ("a month ago", MONDAY, "2023-04"),
        ("a year ago", MONDAY, "2022"),
        ("ten years ago", MONDAY, "2013"),
        ("twenty five years ago", MONDAY, "1998"),
        ("in 3 days", MONDAY, "2023-05-11"),
        ("in two weeks", MONDAY, "week of 2023-05-22"),
        ("in eight months", MONDAY, "2024-01"),
        ("in a year", MONDAY, "2024"),
        ("four days from now", MONDAY, "2023-05-12"),
        ("tomorrow", datetime.datetime(2024, 2, 28, tzinfo=UTC), "2024-02-29"),
        ("last month", datetime.datetime(2024, 1, 31, tzinfo=UTC), "2023-12"),
        ("yesterday", datetime.datetime(2024, 1, 1, 0, 30, tzinfo=OSLO), "2023-12-31"),
    ],
)
def test_what_a_phrase_means(said: str, day: datetime.datetime, meaning: str) -> None:
    ((phrase, iso),) = resolve(said, day)
    assert iso == meaning
    assert phrase in " ".join(said.lower().split())


@pytest.mark.parametrize(
    "said",
    [
        "on Friday",
        "some days ago",
        "the last week of June",
        "over the last year",
        "2.5 days ago",
        "2-3 days ago",
        "half a year ago",
        "years ago",
        "in a day",
        "in 3 hours",
        "the weekend",
        "next to me",
        "last of all",
        "a day",
        "5000 years ago",
        "in 9999 years",
        "the yesterdays",
        "12345 days ago",
        "lastweek",
    ],
)
def test_what_names_no_date_stays_as_it_is(said: str) -> None:
    assert resolve(said, MONDAY) == ()


def test_phrases_come_once_in_order_and_without_a_time_not_at_all() -> None:
    said = "Tomorrow, not last week; tomorrow I said. Next  year maybe."
    found = (("tomorrow", "2023-05-09"), ("last week", "week of 2023-05-01"), ("next year", "2024"))
    assert resolve(said, MONDAY) == found
    assert resolve(said, None) == ()


def test_the_ends_of_the_calendar_resolve_to_nothing() -> None:
    first, last = datetime.datetime.min.replace(tzinfo=UTC), datetime.datetime.max.replace(tzinfo=UTC)
    assert resolve("yesterday, last week, last month and last year", first) == ()
    assert resolve("tomorrow, next week, next month and next year", last) == ()


_PHRASES = """last this next past coming week weekend month year day days weeks ago in from now the before after
yesterday tomorrow today tonight a couple of two twenty-one 3 17 9999 half monday friday sunday tues morning , . -"""
_WORDS = st.sampled_from([*_PHRASES.split(), "\n"])
_DAY = re.compile(r"(?:(?:week|weekend) of )?(\d{4}-\d\d-\d\d)")


@given(st.lists(_WORDS, max_size=14).map(" ".join) | st.text(max_size=60), st.datetimes(timezones=st.just(UTC)))
def test_any_text_on_any_day_gives_dates_of_the_calendar(text: str, day: datetime.datetime) -> None:
    for phrase, iso in resolve(text, day):
        assert phrase in " ".join(text.lower().split())
        assert re.fullmatch(r"(?:(?:week|weekend) of )?\d{4}-\d\d-\d\d|\d{4}-\d\d|\d{4}", iso)
        exact = _DAY.fullmatch(iso)
        if exact:
            date = datetime.date.fromisoformat(exact[1])
            weekday = {"week": 0, "weekend": 5}.get(iso.partition(" ")[0])
            assert weekday in (None, date.weekday())
        assert str(int(iso.rpartition(" ")[2][:4])) in in_words(iso)


@given(st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(3000, 1, 1), timezones=st.just(UTC)))
def test_past_and_future_lie_on_their_side_of_the_turn(day: datetime.datetime) -> None:
    def date_of(phrase: str) -> datetime.date:
        ((_, iso),) = resolve(phrase, day)
        return datetime.date.fromisoformat(iso.rpartition(" ")[2])

    today, one = day.date(), datetime.timedelta(1)
    assert date_of("yesterday") == today - one == date_of("one day ago")
    assert date_of("tomorrow") == today + one == date_of("in one day")
    assert date_of("this week") <= today < date_of("next week") == date_of("in one week")
    assert date_of("last week") == date_of("this week") - 7 * one
    for name in ("monday", "wednesday", "sunday"):
        assert today - 7 * one <= date_of(f"last {name}") < today < date_of(f"this coming {name}") <= today + 7 * one
        assert date_of(f"next {name}") == date_of(f"this {name}") + 7 * one
        assert date_of("this week") <= date_of(f"this {name}") < date_of("next week")


@pytest.mark.parametrize(
    ("iso", "words"),
    [
        ("2023-05-07", "7 May 2023"),
        ("week of 2023-05-01", "week of 1 May 2023"),
        ("2023-04", "April 2023"),
        ("2022", "2022"),
        ("weekend of 2023-05-06", "weekend of 6 May 2023"),
    ],
)
def test_dates_in_words(iso: str, words: str) -> None:
    assert in_words(iso) == words
