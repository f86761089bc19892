"""The model speaks: the text is that of the tokens, in pieces, and an unfinished character is not kept back."""

import pytest
from speaker import MODEL, TOKENIZER, Speaker

from precog.engine import FreeSettings, Sampling, answer_none, question_segment, speak, telling

QUESTION = question_segment(MODEL, "Who built the mill?")
SPACE = TOKENIZER.encode("a  b")[1]
HALF = TOKENIZER.encode("\U0001f9ea")[1:3]
FREE = FreeSettings(20, whole_sentences=False)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        (TOKENIZER.encode("the old mill"), "the old mill"),
        ([SPACE, *TOKENIZER.encode("the  mill"), SPACE], "the  mill"),
        ([*TOKENIZER.encode("mill"), *HALF], "mill\ufffd"),
    ],
)
def test_pieces_are_the_text(ids, text):
    said, told = [], []
    spoken = speak(Speaker(ids), None, QUESTION, FREE, said.append)
    with telling(TOKENIZER, told.append) as on_token:
        answer = answer_none(Speaker(ids), QUESTION, settings=FREE, on_token=on_token)
    assert "".join(said) == "".join(told) == spoken.text == text == TOKENIZER.decode(answer.token_ids).strip()
    assert said == told
    assert all(said)
    assert (spoken.num_tokens, spoken.was_cut) == (len(ids), False)


def test_it_is_cut_off_comes_to_a_stop_or_goes_on_with_a_text():
    ids = TOKENIZER.encode("the old mill by the river")
    cut = speak(Speaker(ids), None, QUESTION, FreeSettings(3))
    assert (cut.text, cut.num_tokens, cut.was_cut) == ("the old mill", 3, True)
    stopped = speak(Speaker(ids), None, QUESTION, FreeSettings(3), stops=(" mill",))
    assert (stopped.text, stopped.num_tokens, stopped.was_cut) == ("the old", 3, False)
    assert speak(Speaker(ids), None, QUESTION, FREE, goes_on=True).text == " the old mill by the river"


def test_nobody_listens():
    with telling(TOKENIZER, None) as on_token:
        assert on_token is None


def test_settings_of_a_length_or_none():
    sampling = Sampling(0.5, seed=1)
    assert FreeSettings.of(None, sampling) == FreeSettings(sampling=sampling)
    assert FreeSettings.of(7, sampling) == FreeSettings(7, sampling)
