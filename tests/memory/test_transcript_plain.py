"""Transcripts for the eye: plain ones, WhatsApp exports, subtitles; and whatever bytes come."""

import datetime
import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import InputError
from precog.memory.transcript import Transcript, transcript_of
from precog.memory.utterance import Utterance

UTC = datetime.UTC
TEN = datetime.datetime(2024, 5, 1, 10, tzinfo=UTC)


def read(text: str, **options: object) -> Transcript:
    return transcript_of(text.encode(), "chat.txt", **{"zone": UTC, **options})


def turns(text: str, **options: object) -> list[tuple[str | None, str]]:
    return [(utterance.speaker, utterance.text) for utterance in read(text, **options).utterances]


def test_names_alone() -> None:
    found = read("\nAna: hello\r\nBo Berg: hi,\nhow are you?\n\nsee https://x.y\nAna:\nfine\n")
    assert found.format == "plain"
    assert list(found.utterances) == [
        Utterance("hello", None, "Ana"),
        Utterance("hi,\nhow are you?\n\nsee https://x.y", None, "Bo Berg"),
        Utterance("fine", None, "Ana"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "[2024-05-01 10:00] Ana: hello",
        "[2024-05-01T12:00:00+02:00] Ana: hello",
        "[10:00 am on 1 May, 2024] Ana: hello",
        "2024-05-01T12:00:00+02:00 Ana: hello",
        "2024-05-01 10:00 Ana: hello",
        "2024-05-01 10:00:00.000Z - Ana: hello",
    ],
)
def test_time_stamps_before_names(line: str) -> None:
    found = read(f"{line}\nNote: buy milk\n{line}\n")
    assert found.format == "plain"
    assert list(found.utterances) == [Utterance("hello\nNote: buy milk", TEN, "Ana"), Utterance("hello", TEN, "Ana")]


def test_a_wrong_time_stamp_names_file_and_line() -> None:
    with pytest.raises(InputError, match=r"chat.txt: line 2: the time stamp cannot be read; given: 2024-15-01"):
        read("[2024-05-01] Ana: hello\n[2024-15-01] Bo: hi\n")
    with pytest.raises(InputError, match=r"line 1: the time stamp cannot be read; given: 01/05/2024"):
        read("[01/05/2024] Ana: hello\n")


def test_turns_without_words_are_skipped_and_counted() -> None:
    found = read("Ana: \nBo:\nAna: yes\n")
    assert [u.text for u in found.utterances] == ["yes"]
    assert found.notes == ("2 turns without words skipped",)
    with pytest.raises(InputError, match="there is no turn with words in it"):
        read("Ana: \n")


@pytest.mark.parametrize(
    "text", ["A sentence, then more: this is prose.", "https://example.org: x", "12: 13", "x\nAna: hi"]
)
def test_prose_is_no_transcript(text: str) -> None:
    with pytest.raises(InputError, match="no transcript of a known format"):
        read(text)


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        ("13/05/2024, 10:00 - Ana: a\n14/05/2024, 10:00 - Bo: b", [13, 14]),
        ("05/13/2024, 10:00 - Ana: a\n05/14/24, 10:00 - Bo: b", [13, 14]),
        ("[13/05/2024, 10:00:00] Ana: a\n[14/05/2024, 10:00:00] Bo: b", [13, 14]),
        ("5/13/24, 10:00\u202fAM - Ana: a\n5/14/24, 10:00 am - Bo: b", [13, 14]),
        ("01.05.2024, 10:00 - Ana: a\n02.05.2024, 10:00 - Bo: b", [1, 2]),
        ("2024-05-01, 10:00 - Ana: a\n2024-05-02, 10:00 - Bo: b", [1, 2]),
        ("05/05/2024, 10:00 - Ana: a\n05/05/2024, 10:00 - Bo: b", [5, 5]),
        ("10/05/2024, 10:00 - Ana: a\n02/06/2024, 10:00 - Bo: b", [10, 2]),  # only so in the order of time
    ],
)
def test_whatsapp_dates_are_read_the_only_way_they_make_sense(lines: str, days: list[int]) -> None:
    found = read(lines)
    assert found.format == "whatsapp"
    assert [(u.time.day, u.time.hour, u.speaker) for u in found.utterances if u.time] == [
        (days[0], 10, "Ana"),
        (days[1], 10, "Bo"),
    ]
    assert {u.time.month for u in found.utterances if u.time} <= {5, 6}


def test_whatsapp_dates_that_can_be_read_in_two_ways_are_refused() -> None:
    text = "01/05/2024, 10:00 - Ana: a\n02/05/2024, 10:00 - Bo: b"
    with pytest.raises(InputError, match=r"line 1: the date can be read in two ways.*given: 01/05/2024.*day or the"):
        read(text)
    assert [u.time.day for u in read(text, day_first=True).utterances if u.time] == [1, 2]
    assert [u.time.month for u in read(text, day_first=False).utterances if u.time] == [1, 2]
    with pytest.raises(InputError, match="dates of lines 1 and 2 are written in different ways"):
        read("13/05/2024, 10:00 - Ana: a\n05/13/2024, 10:00 - Bo: b")
    with pytest.raises(InputError, match=r"line 2: there is no such date and time; given: 31/02/2024 \(day first\)"):
        read("13/05/2024, 10:00 - Ana: a\n31/02/2024, 10:00 - Bo: b")
    with pytest.raises(InputError, match="line 1: there is no such date and time"):
        read("13/05/2024, 25:00 - Ana: a")


def test_whatsapp_notices_lines_and_half_days() -> None:
    text = (
        "13/05/2024, 12:05 am - Messages are encrypted.\n"
        "13/05/2024, 1:05 pm - +47 123 45: one\ntwo: three\n\u200e[13/05/2024, 1:05 pm] ~ Bo: four"
    )
    assert turns(text) == [("+47 123 45", "one\ntwo: three"), ("~ Bo", "four")]
    assert [u.time.hour for u in read(text).utterances if u.time] == [13, 13]
    assert read(text).notes == ("1 notice of the program passed over",)


def test_what_stands_for_media_is_passed_over_and_counted() -> None:
    said = [
        "<Media omitted>",
        "<Medien ausgeschlossen>",
        "\u200eimage omitted",
        "video omitted",
        "IMG_1.jpg (file attached)",
    ]
    said += ["This message was deleted", "<Media omitted>\nat the lake", "I <3 you", "?!"]
    found = read("".join(f"13/05/2024, 1:05 pm - Ana: {text}\n" for text in said))
    assert [turn.text for turn in found.utterances] == ["at the lake", "I <3 you"]
    assert (found.num_notices, found.num_skipped) == (6, 1)
    assert "6 notices of the program passed over" in found.notes


SRT = "1\n00:00:01,000 --> 00:00:02,500\n<i>Ana:</i> hello\nthere\n\n2\n00:00:03,000 --> 00:00:04,000\n- No &amp; yes\n"
VTT = (
    "WEBVTT - title\n\nNOTE nothing\n\nintro\n00:01.000 --> 00:02.500 align:start\n<v.loud Ana Lima>hello</v>\n\n"
    "01:00:03.000 --> 01:00:04.000\n\n01:00:05.000 --> 01:00:06.000\nyes\n"
)


def test_subtitles() -> None:
    assert read(SRT).format == read(VTT).format == "subtitles"
    assert turns(SRT) == [("Ana", "hello\nthere"), (None, "- No & yes")]
    assert turns(VTT) == [("Ana Lima", "hello"), (None, "yes")]
    assert read(VTT).num_skipped == 1
    assert [u.reference for u in read(VTT).utterances] == ["00:01.000", "01:00:05.000"]
    assert [u.time for u in read(SRT).utterances] == [None, None]
    times = [u.time for u in read(SRT, begins=TEN).utterances]
    assert times == [TEN + datetime.timedelta(seconds=1), TEN + datetime.timedelta(seconds=3)]
    with pytest.raises(InputError, match=r"chat.txt: line 5: no span of time; given: 00:00:03 --> 4"):
        read("1\n00:00:01,000 --> 00:00:02,500\nhello\n\n00:00:03 --> 4\nyes\n")
    with pytest.raises(InputError, match="line 2: no span of time"):
        read("1\n00:61:01,000 --> 00:00:02,500\nhello\n")


_PIECES = st.sampled_from(
    [
        '{"text": ',
        '"time": ',
        '"mapping": {',
        '"a"',
        "[",
        "]",
        "{",
        "}",
        ",",
        "\n",
        "null",
        "1e999",
        '"session_1": ',
        "-1",
        "Ana: ",
        "hello",
        "[2024-05-01 10:00] ",
        "01/05/2024, 10:00 - ",
        "99/99/9999, 99:99 - ",
        "0/0/0, 1:00 - ",
        " --> ",
        "WEBVTT\n",
        "00:00:01,000",
        "1",
        "\\ud800",
        '"conversation": {',
        '"mission": "a11", "stream": "CM", ',
        "9999-12-31",
        '"messages": [',
        '"parent": ',
        "\u200e",
        "\u202f",
        "\x00",
        "٣",
        "0001-01-01 00:00 ",
        "[2024-02-30 1] ",
        "pm on 8 May",
    ]
)
_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from([UTC, datetime.timezone(datetime.timedelta(hours=14))]),
        "day_first": st.booleans(),
        "begins": st.sampled_from([TEN, datetime.datetime.max.replace(tzinfo=UTC)]),
    },
)
_BYTES = st.one_of(
    st.lists(_PIECES, max_size=16).map("".join).map(str.encode),
    st.text(max_size=60).map(str.encode),
    st.binary(max_size=60),
    st.binary(max_size=30).map(gzip.compress),
    *[
        st.binary(max_size=30).map(magic.__add__)
        for magic in (b"\x1f\x8b\x08\x00", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"\xff\xfe")
    ],
)


@given(_BYTES, _OPTIONS)
@settings(max_examples=400)
def test_any_bytes_are_utterances_or_one_clear_line(data: bytes, options: dict[str, object]) -> None:
    try:
        found = transcript_of(data, "chat", **options)
    except InputError as error:
        said = str(error)
    else:
        said = found.name
        assert found.num_utterances > 0
    assert said.startswith("chat") or "; given: chat" in said
    assert "\n" not in said


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "text",
                    "content",
                    "message",
                    "time",
                    "speaker",
                    "author",
                    "parts",
                    "mapping",
                    "parent",
                    "current_node",
                    "messages",
                    "conversation",
                    "session_1",
                    "session_1_date_time",
                    "mission",
                    "stream",
                    "a",
                    "title",
                    "qa",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_VALUES, min_size=1, max_size=3))
@settings(max_examples=200)
def test_any_json_is_utterances_or_one_clear_line(values: list[object]) -> None:
    for text in (json.dumps(values), "\n".join(map(json.dumps, values)), json.dumps(values[0], indent=1)):
        try:
            found = transcript_of(text.encode(), "chat", zone=UTC)
        except InputError as error:
            said = str(error)
        else:
            said = found.name
            assert found.num_utterances > 0
        assert said.startswith("chat")
        assert "\n" not in said
