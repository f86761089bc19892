"""Utterances are clean when they are made, or are not made."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.errors import InputError
from precog.memory.utterance import Utterance, clean, has_words, refuse_broken

NOON = datetime.datetime(2023, 5, 8, 12, tzinfo=datetime.UTC)


def test_white_space_at_the_ends_and_in_names_goes() -> None:
    utterance = Utterance(" two\n lines \n", NOON, " Ana \n Lima ", "\tOslo", " ")
    assert utterance == Utterance("two\n lines", NOON, "Ana Lima", "Oslo", None)


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\x00", "\u3000", "\u200b", "\ufeff", "\u0301", "\u202e", "\u3164", "?", "…!"]
)
def test_a_turn_without_words_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match="a turn has no words") as caught:
        Utterance(text, NOON)
    assert "\n" not in str(caught.value)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(InputError, match="no zone; given: 2023-05-08T12:00:00"):
        Utterance("hello", datetime.datetime(2023, 5, 8, 12))


def test_half_surrogate_pairs_and_nul_do_not_get_in() -> None:
    assert Utterance("a\ud800b\x00c", None, "x\udfff").text == "a\ufffdb c"
    assert clean("\ud83d\ude00") == "😀"


@pytest.mark.parametrize("text", ["a", "7", "你", "\u202eabc", "½"])
def test_one_letter_or_digit_is_enough(text: str) -> None:
    assert Utterance(text, None).text == text


def test_what_a_command_line_brings_in_broken_is_refused_by_name() -> None:
    refuse_broken(text="a\ufffdb \U0001f600", speaker=None)
    with pytest.raises(InputError, match="the speaker is not valid Unicode; given: character 1"):
        refuse_broken(text="fine", speaker="A\udcff")


@given(st.text(st.characters(), max_size=30), st.text(st.characters(), max_size=10))
def test_whatever_is_taken_can_be_written_and_made_again(text: str, speaker: str) -> None:
    try:
        utterance = Utterance(text, None, speaker)
    except InputError:
        assert not has_words(text)
        return
    utterance.text.encode()
    assert utterance.text == utterance.text.strip() != ""
    assert Utterance(utterance.text, None, utterance.speaker) == utterance
