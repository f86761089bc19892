"""Transcripts in JSON: the project's own, other people's, LoCoMo, Spacelog and chat exports."""

import bz2
import datetime
import gzip
import json
import lzma
import os
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import InputError, StorageError
from precog.memory.transcript import (
    LocomoQuestion,
    Session,
    Transcript,
    locomo_questions,
    read_transcript,
    transcript_of,
    write_jsonl,
)
from precog.memory.utterance import Utterance

UTC = datetime.UTC
TEN = datetime.datetime(2024, 5, 1, 10, tzinfo=UTC)


def read(text: str | bytes, **options: object) -> Transcript:
    data = text.encode() if isinstance(text, str) else text
    return transcript_of(data, "chat.jsonl", **{"zone": UTC, **options})


def test_the_projects_own_format() -> None:
    found = read(
        '{"text": "hello", "time": "2024-05-01T10:00:00Z", "speaker": "Ana", "place": "Oslo", "reference": "7"}\n'
        "\n"
        '{"text": "two\\nlines"}\n'
    )
    assert list(found.utterances) == [Utterance("hello", TEN, "Ana", "Oslo", "7"), Utterance("two\nlines", None)]
    assert (found.name, found.format, found.num_utterances, found.notes) == ("chat.jsonl", "jsonl", 2, ())
    (session,) = found.sessions
    assert (session.conversation, session.name, session.begins, session.speakers) == ("chat.jsonl", "", TEN, ("Ana",))
    assert list(found.utterances) == list(found.utterances)


@pytest.mark.parametrize(
    "row",
    [
        {"text": "hi", "time": "2024-05-01T10:00:00Z", "speaker": "Ana"},
        {"content": "hi", "timestamp": 1714557600, "role": "Ana"},
        {"message": "hi", "created_at": "2024-05-01T12:00:00+02:00", "name": "Ana"},
        {"message": {"content": "hi", "role": "Ana"}, "timestamp": "1714557600000"},
        {"content": [{"type": "text", "text": "hi"}, {"type": "image"}], "date": "2024-05-01 10:00", "author": "Ana"},
        {"text": "hi", "time": 1714557600.0, "author": {"name": "Ana"}},
    ],
)
def test_other_names_for_the_same(row: dict[str, object]) -> None:
    assert list(read(json.dumps(row)).utterances) == [Utterance("hi", TEN, "Ana")]
    assert list(read(json.dumps([row, row], indent=1)).utterances) == [Utterance("hi", TEN, "Ana")] * 2


def test_conversations_sessions_and_turns_without_words() -> None:
    found = read(
        '{"id": "a", "messages": [{"role": "user", "content": "one"}, {"role": "tool", "content": null}]}\n'
        '{"id": "a", "turns": [{"speaker": "B", "text": "two"}, {"speaker": "B", "text": "  "}]}\n'
        '{"text": "three", "conv": "c", "session": 2}\n'
    )
    assert [(s.conversation, s.name, [u.text for u in s.utterances]) for s in found.sessions] == [
        ("a", "", ["one"]),
        ("a (2)", "", ["two"]),
        ("c", "2", ["three"]),
    ]
    assert set(found.conversations) == {"a", "a (2)", "c"}
    assert found.notes == ("2 turns without words skipped",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a"}\n{"text": "b", "time": "soon"}', r"chat.jsonl: line 2: the time stamp cannot .*given: soon"),
        ('{"text": "a"}\n{"text": }\n', "chat.jsonl: line 2: malformed JSON"),
        ('{"text": }\n', "chat.jsonl: line 1: malformed JSON"),
        ('{"text": "a"}\n[3]\n', "chat.jsonl: line 2: turn 1: no turn; given: 3"),
        ('{"text": "a"}\n7\n', "line 2: neither a turn nor a conversation"),
        ('{"text": "a"}\n{"txt": "a"}', "line 2: a turn without text; given: txt; expected: text or content"),
        ('{"text": "a"}\n{"text": 3}', "line 2: a turn's text is no text; given: 3"),
        ('{"text": "a"}\n{"text": "b", "time": true}', "line 2: the time stamp cannot be read; given: True"),
        ('[\n {"text": "a"},\n {"text" "b"}\n]', "chat.jsonl: line 3: malformed JSON"),
        ('[{"text": "a"}, {"time": 3}]', "entry 2: a turn without text; given: time"),
        ('{"text": ""}', "there is no turn with words in it"),
        ("[]", "there is no turn with words in it"),
        ('{"turns": [{"text": "a"}, {"text": "b", "ts": "x"}]}', "line 1: turn 2: the time stamp"),
        ('[{"a":' * 100_000, "nested too deeply|malformed"),
        ('{"text": "a", "time": ' + "9" * 5000 + "}", "malformed JSON|cannot be read"),
        ("Once upon a time there was a file", "no transcript of a known format; expected: JSON lines .*LoCoMo.*SRT"),
        ("", "the transcript is empty"),
        (
            '{"format": "precog-memory", "version": 1, "deposits": 0}\n',
            "the export of a memory, no transcript; precog memory im",
        ),
        (b"\x00\x01\x02\x03" * 50, "binary data"),
        (gzip.compress(b'{"text": "a"}\n' * 99, mtime=0)[:-9], "the compressed transcript is damaged"),
        (lzma.compress(b'{"text": "a"}\n' * 99)[:-9], "the compressed transcript is damaged"),
        (zstandard.compress(b'{"text": "a"}\n' * 99)[:-9], "the compressed transcript is damaged"),
        (bz2.compress(b'{"text": "a"}\n' * 99), "known format|binary data"),
    ],
)
def test_a_wrong_file_or_line_is_one_clear_line(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    assert "chat.jsonl" in str(caught.value)


@pytest.mark.parametrize("pack", [gzip.compress, partial(lzma.compress, preset=0), zstandard.compress])
def test_little_that_becomes_much_is_refused_before_it_is_there(pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(b" " * (128 << 20))
    tracemalloc.start()
    with pytest.raises(InputError, match="decompression bomb"):
        read(bomb)
    assert tracemalloc.get_traced_memory()[1] < 80 << 20
    tracemalloc.stop()


def test_compressed_files_and_other_encodings_are_read(tmp_path: Path) -> None:
    plain = '{"text": "Grüße"}\n{"text": "zwei"}\n'.encode()
    frames = zstandard.compress(plain[:18]) + zstandard.compress(plain[18:])
    for data in (gzip.compress(plain, mtime=0), lzma.compress(plain), zstandard.compress(plain), frames):
        (tmp_path / "chat").write_bytes(data)
        assert [u.text for u in read_transcript(tmp_path / "chat").utterances] == ["Grüße", "zwei"]
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        assert [u.text for u in read(plain.decode().encode(encoding)).utterances] == ["Grüße", "zwei"]
    old = read(plain.decode().encode("cp1252"))
    assert old.notes == ("byte 12 is not UTF-8: all of the file is read as cp1252",)


@pytest.mark.parametrize("times", [1, 20])
def test_one_bad_byte_spoils_one_place_and_is_told(times: int) -> None:
    words = "Grüße ".encode() * times
    damaged = read(b'{"text": "' + words + b'\xff"}\n')
    assert damaged.utterances.__next__().text == "Grüße " * times + "\ufffd"
    assert damaged.notes == (f"1 undecodable place read as U+FFFD, at byte {10 + len(words)}",)
    twice = read(b'{"text": "' + words * 2 + b'\xff"}\n{"text": "\xfe"}\n{"text": "a"}\n')
    assert twice.num_skipped == 1
    assert twice.notes[-1] == f"2 undecodable places read as U+FFFD, the first at byte {10 + 2 * len(words)}"


def test_half_a_surrogate_pair_is_told() -> None:
    found = read(
        '{"text": "so \\ud83d", "speaker": "Ana"}\n{"text": "no \\ud83d\\ude00"}\n{"text": "a", "speaker": "\\udfff"}\n'
    )
    assert [turn.text for turn in found.utterances] == ["so \ufffd", "no 😀", "a"]
    assert found.notes == ("half surrogate pairs read as U+FFFD in 2 turns",)


def test_a_file_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, Path("a\0b")):
        with pytest.raises(InputError, match="the transcript cannot be read"):
            read_transcript(path)


SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_10_date_time": "12:09 am on 13 September, 2023",
        "session_10": [{"speaker": "Bo", "dia_id": "D10:1", "text": "late"}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ana", "dia_id": "D2:1", "text": "early"},
            {"speaker": "Bo", "dia_id": "D2:2", "text": "Look!", "blip_caption": "a photo of a dog"},
        ],
        "session_3_date_time": "1:56 pm on 9 May, 2023",
    },
    "qa": [
        {"question": "When?", "answer": 2022, "evidence": ["D2:1"], "category": 2},
        {"question": "Who?", "answer": "Bo", "evidence": ["D:2:2; D10:01", "D2:2", "D"], "category": 1},
        {"question": "Why?", "adversarial_answer": "rain", "evidence": [], "category": 5},
        {"question": "How?", "answer": "so", "evidence": [], "category": 5},
    ],
}


def test_locomo_sessions_have_their_dates_and_turns_their_references() -> None:
    found = read(json.dumps([SAMPLE, {**SAMPLE, "sample_id": "conv-2"}]))
    assert found.format == "locomo"
    names = [(s.conversation, s.name, len(s.utterances)) for s in found.sessions]
    assert names[:2] == [("conv-1", "session_2", 2), ("conv-1", "session_10", 1)]
    assert names[2][0] == "conv-2"
    first, second = found.sessions[0].utterances
    assert first == Utterance("early", datetime.datetime(2023, 5, 8, 13, 56, tzinfo=UTC), "Ana", reference="D2:1")
    assert second.text == "Look! [shares a photo of a dog]"
    assert read(json.dumps(SAMPLE)).num_utterances == 3
    assert read(json.dumps(SAMPLE["conversation"])).num_utterances == 3


def test_locomo_questions(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json.gz"
    path.write_bytes(gzip.compress(json.dumps([SAMPLE]).encode(), mtime=0))
    assert locomo_questions(path) == (
        LocomoQuestion("conv-1/0", "conv-1", "When?", "2022", ("D2:1",), 2),
        LocomoQuestion("conv-1/1", "conv-1", "Who?", "Bo", ("D2:2", "D10:1"), 1),
        LocomoQuestion("conv-1/2", "conv-1", "Why?", None, (), 5, "rain"),
        LocomoQuestion("conv-1/3", "conv-1", "How?", None, (), 5, "so"),
    )
    assert locomo_questions(path)[0].category_name == "temporal"
    rows = [{"conv": "conv-1", **entry} for entry in SAMPLE["qa"]]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [question.id for question in locomo_questions(path)] == [f"conv-1/{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"question": "", "answer": "x", "category": 1}, "question c/0 has no words"),
        ({"question": "q", "answer": "x", "category": 6}, "question c/0 has no category; given: 6; expected: 1 to 5"),
        ({"question": "q", "answer": "x", "category": True}, "question c/0 has no category; given: True"),
        ({"question": "q", "answer": "x", "category": 1.0}, "question c/0 has no category; given: 1.0"),
        ({"question": "q", "category": 1}, "question c/0 has no answer"),
        ({"question": "q", "answer": "x", "evidence": "D1:1", "category": 1}, "question c/0 has no list of evidence"),
        (3, "question c/0 has no words"),
    ],
)
def test_a_wrong_question_is_named(entry: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "c", "qa": [entry]}]))
    with pytest.raises(InputError, match=f"locomo.json: {message}"):
        locomo_questions(path)
    path.write_text('{"text": "no question"}')
    with pytest.raises(InputError, match="no LoCoMo sample"):
        locomo_questions(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session_2_date_time": "one day"}, "entry 1: session_2: the time stamp cannot be read; given: one day"),
        ({"session_2": "x"}, "entry 1: session_2: no list of turns"),
        ({"session_2": [{"dia_id": "D2:1"}]}, "entry 1: session_2: turn 1 has no text"),
    ],
)
def test_a_wrong_session_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(json.dumps([{**SAMPLE, "conversation": {**SAMPLE["conversation"], **change}}]))


def test_flight_times_count_from_lift_off() -> None:
    row = {"mission": "a11", "stream": "TEC", "time": "04:06:45:57", "speaker": "CDR", "text": "The Eagle has landed."}
    found = read("\n".join(map(json.dumps, [row, {**row, "mission": "x1"}, {**row, "time": "-00:00:00:10"}])))
    assert found.format == "spacelog"
    assert set(found.conversations) == {"a11", "x1"}
    landed, before = found.conversations["a11"][0].utterances
    assert landed.time == datetime.datetime(1969, 7, 20, 20, 17, 57, tzinfo=UTC)
    assert landed.reference == "a11/TEC/04:06:45:57"
    assert before.time == datetime.datetime(1969, 7, 16, 13, 31, 50, tzinfo=UTC)
    assert found.conversations["x1"][0].utterances[0].time is None
    with pytest.raises(InputError, match="line 1: the elapsed time cannot be read; given: noon"):
        read(json.dumps({**row, "time": "noon"}))


def test_a_chatgpt_export_is_read_along_its_current_branch() -> None:
    def node(parent: str | None, role: str, *parts: object) -> dict[str, object]:
        content = {"content_type": "text", "parts": list(parts)}
        return {"parent": parent, "message": {"author": {"role": role}, "create_time": 1714557600, "content": content}}

    mapping = {
        "root": {"parent": None, "message": None},
        "system": node("root", "system", ""),
        "ask": node("system", "user", "Hello?", {"asset": 1}),
        "old": node("ask", "assistant", "Bad."),
        "new": node("ask", "assistant", "Hi."),
    }
    chat = {"title": "New chat", "mapping": mapping, "current_node": "new"}
    found = read(json.dumps([chat, {**chat, "current_node": "old"}]))
    assert found.format == "chatgpt"
    assert list(found.conversations) == ["New chat", "New chat (2)"]
    assert found.sessions[0].utterances == (Utterance("Hello?", TEN, "user"), Utterance("Hi.", TEN, "assistant"))
    assert found.sessions[1].utterances[1].text == "Bad."
    loop = {"a": {"parent": "b"}, "b": {"parent": "a"}}
    for broken in ({**chat, "current_node": "none"}, {**chat, "mapping": loop, "current_node": "a"}):
        with pytest.raises(InputError, match="tree of messages is damaged"):
            read(json.dumps([broken]))


_UTTERANCES = st.builds(
    Utterance,
    st.text(st.characters(), min_size=1, max_size=20).map("x".__add__),
    st.none() | st.datetimes(timezones=st.sampled_from([UTC, datetime.timezone(datetime.timedelta(hours=-3))])),
    *[st.none() | st.text(max_size=8)] * 3,
)


@given(st.lists(_UTTERANCES, min_size=1, max_size=6))
@settings(max_examples=50)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, utterances: list[Utterance]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.jsonl"
    assert write_jsonl(utterances, path) == len(utterances)
    assert list(read_transcript(path).utterances) == utterances
    parted = Transcript("t", "jsonl", (Session("a", "1", tuple(utterances)), Session("a", "2", tuple(utterances))))
    write_jsonl(parted, path)
    assert read_transcript(path).sessions == parted.sessions


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    write_jsonl([Utterance("old", None)], path)
    assert path.stat().st_mode & 0o777 == 0o600

    def broken() -> Iterator[Utterance]:
        yield Utterance("new", None)
        raise InputError("the conversation ends here")

    with pytest.raises(InputError, match="ends here"):
        write_jsonl(broken(), path)
    assert [u.text for u in read_transcript(path).utterances] == ["old"]
    assert os.listdir(tmp_path) == ["chat.jsonl"]
    with pytest.raises(StorageError, match="the transcript cannot be written"):
        write_jsonl([], tmp_path / "none" / "chat.jsonl")
    with pytest.raises(StorageError, match="no path has a NUL"):
        write_jsonl([], "a\0b")
