"""Headers, and the chunks they lead."""

import datetime
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import UsageError
from precog.memory.chunking import MIN_CHUNK_TOKENS, MemoryChunk, chunks_of
from precog.memory.header import dated_header, fitting_header, header_of
from precog.memory.moment import resolve
from precog.memory.utterance import Utterance
from precog.text.tokenizer import MistralTokenizer

TIME = datetime.datetime(2023, 5, 8, 13, 56, 0, 123, tzinfo=datetime.UTC)
TOKENIZER = MistralTokenizer()


def num_tokens(text: str) -> int:
    return len(TOKENIZER.encode(text))


def chunks(*utterances: Utterance, max_tokens: int = MIN_CHUNK_TOKENS) -> list[MemoryChunk]:
    return list(chunks_of(utterances, TOKENIZER, max_tokens=max_tokens))


@pytest.mark.parametrize(
    ("utterance", "header"),
    [
        (
            Utterance("x", TIME, "Caroline", "Oslo"),
            "[2023-05-08T13:56:00+00:00 | Caroline | Oslo] On 8 May 2023, Caroline said: ",
        ),
        (Utterance("x", TIME), "[2023-05-08T13:56:00+00:00] On 8 May 2023: "),
        (Utterance("x", TIME, place="Oslo"), "[2023-05-08T13:56:00+00:00 | Oslo] On 8 May 2023: "),
        (Utterance("x", None, "Ana"), "[Ana] "),
        (Utterance("x", None), ""),
        (Utterance("x", None, "A|B [chief]"), "[A/B (chief)] "),
        (Utterance("x", TIME, "]|"), "[2023-05-08T13:56:00+00:00 | )/] On 8 May 2023, )/ said: "),
        (Utterance("x", None, "n" * 200), f"[{'n' * 80}] "),
        (
            Utterance("x", TIME.astimezone(ZoneInfo("America/New_York")), "Ana"),
            "[2023-05-08T09:56:00-04:00 | Ana] On 8 May 2023, Ana said: ",
        ),
    ],
)
def test_a_header_says_what_is_known(utterance: Utterance, header: str) -> None:
    assert header_of(utterance) == header


def test_long_names_are_cut_before_the_time_is() -> None:
    utterance = Utterance("x", TIME, "𒀀" * 80, "𒀀" * 80)
    header = fitting_header(utterance, TOKENIZER, 48)
    assert num_tokens(header) <= 48
    assert header.startswith("[2023-05-08T13:56:00+00:00")
    assert (
        fitting_header(Utterance("x", TIME, "Ana"), TOKENIZER, 48)
        == "[2023-05-08T13:56:00+00:00 | Ana] On 8 May 2023, Ana said: "
    )


def test_a_short_turn_is_one_chunk() -> None:
    utterance = Utterance("I met Bo yesterday, and last week, and yesterday.", TIME, "Ana", "Oslo", "D1:1")
    (chunk,) = chunks(utterance)
    assert chunk.utterance == utterance
    assert (chunk.part, chunk.num_parts) == (0, 1)
    days = "yesterday: 7 May 2023; last week: week of 1 May 2023"
    assert chunk.header == f"[2023-05-08T13:56:00+00:00 | Ana | Oslo] On 8 May 2023, Ana said ({days}): "
    assert chunk.read_text() == chunk.header + utterance.text
    assert chunk.resolved == (("yesterday", "2023-05-07"), ("last week", "week of 2023-05-01"))
    assert chunk.key_text() == f"Ana: {utterance.text} (yesterday: 7 May 2023; last week: week of 1 May 2023)"
    assert chunks(Utterance("hi", None))[0].key_text() == "hi"


def test_a_long_turn_is_cut_between_sentences_and_every_part_has_the_header() -> None:
    sentences = [f"This is sentence number {n}, said by one who talks for long." for n in range(40)]
    found = chunks(Utterance(" ".join(sentences), TIME, "Ana"))
    assert [chunk.part for chunk in found] == list(range(len(found)))
    assert {chunk.num_parts for chunk in found} == {len(found)}
    assert {chunk.header for chunk in found} == {"[2023-05-08T13:56:00+00:00 | Ana] On 8 May 2023, Ana said: "}
    assert all(num_tokens(chunk.read_text()) <= MIN_CHUNK_TOKENS for chunk in found)
    assert " ".join(chunk.utterance.text for chunk in found) == " ".join(sentences)
    assert all(chunk.utterance.text.endswith("long.") for chunk in found)
    assert all(chunk.utterance.speaker == "Ana" and chunk.utterance.time == TIME for chunk in found)


def test_a_part_resolves_its_own_words_alone() -> None:
    found = chunks(Utterance("I was there yesterday. " + "And so it went on and on. " * 40 + "See you tomorrow.", TIME))
    assert found[0].resolved == (("yesterday", "2023-05-07"),)
    assert found[-1].resolved == (("tomorrow", "2023-05-09"),)
    assert all(not chunk.resolved for chunk in found[1:-1])
    assert found[0].header == "[2023-05-08T13:56:00+00:00] On 8 May 2023 (yesterday: 7 May 2023): "
    assert {chunk.header for chunk in found[1:-1]} == {"[2023-05-08T13:56:00+00:00] On 8 May 2023: "}


def test_as_many_days_are_told_as_fit() -> None:
    text = "Yesterday, today, tomorrow, last week, next week, last year: " + "all of it was full of words. " * 3
    every = resolve(text, TIME)
    assert len(every) == 6
    header = header_of(Utterance(text, TIME))
    whole = dated_header(header, every, text, TOKENIZER, 256)
    assert whole.count(";") == 5
    lengths = []
    for most in range(num_tokens(header + text), num_tokens(whole + text) + 1):
        dated = dated_header(header, every, text, TOKENIZER, most)
        assert num_tokens(dated + text) <= most
        lengths.append(len(dated))
    assert lengths == sorted(lengths)
    assert lengths[0] == len(header)
    assert lengths[-1] == len(whole)


def test_a_turn_of_a_hundred_thousand_tokens_works() -> None:
    text = "word after word goes by and no full stop ever comes " * 9_100
    assert num_tokens(text) > 100_000
    found = chunks(Utterance(text, TIME, "Ana"), max_tokens=512)
    assert len(found) > 200
    assert max(num_tokens(chunk.read_text()) for chunk in found) <= 512
    assert " ".join(chunk.utterance.text for chunk in found) == text.strip()


@given(st.text(max_size=400), st.text(max_size=100), st.integers(MIN_CHUNK_TOKENS, 140))
@settings(max_examples=60)
def test_no_chunk_exceeds_the_cap_and_no_word_is_lost(text: str, speaker: str, max_tokens: int) -> None:
    utterance = Utterance("a" + text, TIME, speaker)
    found = chunks(utterance, max_tokens=max_tokens)
    assert all(num_tokens(chunk.read_text()) <= max_tokens for chunk in found)
    assert "".join("".join(chunk.utterance.text for chunk in found).split()) == "".join(utterance.text.split())


def test_order_is_kept_and_utterances_are_read_one_at_a_time() -> None:
    taken: list[int] = []

    def talk() -> Iterator[Utterance]:
        for n in range(5):
            taken.append(n)
            yield Utterance(f"turn {n}", TIME)

    stream = chunks_of(talk(), TOKENIZER, max_tokens=100)
    assert next(stream).utterance.text == "turn 0"
    assert taken == [0]
    assert [chunk.utterance.text for chunk in stream] == [f"turn {n}" for n in range(1, 5)]


def test_a_cap_too_small_for_header_and_words_is_refused() -> None:
    with pytest.raises(UsageError, match=r"chunk size is too small; given: 95; expected: at least 96"):
        chunks_of([], TOKENIZER, max_tokens=95)
