"""An answer as it comes: the same however it is cut, and nothing after a stop."""

import pytest

from precog.engine.speech import Speech


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("  one two END three", ("END",), "one two"),
        ("one EN two  ", ("END",), "one EN two"),
        ("aaab", ("aab",), "a"),
        ("one", ("one",), ""),
        (" a\n\nb ", (), "a\n\nb"),
        ("x  ", ("  y",), "x"),
    ],
)
def test_speech_is_the_same_however_it_is_cut(size: int, text: str, stops: tuple[str, ...], expected: str) -> None:
    told: list[str] = []
    speech = Speech(told.append, stops=stops)
    for start in range(0, len(text), size):
        if speech.push(text[start : start + size]):
            break
    speech.finish()
    assert speech.text == "".join(told) == expected
