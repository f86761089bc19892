from hypothesis import given
from hypothesis import strategies as st

from precog.evaluate.pieces import pieces_of
from precog.text.chunking.sentence import sentence_cuts

TEXT = "One is short. Two is a sentence of some length, longer than all others are. Three follows. Four ends it."


def test_cuts_lie_between_sentences_near_equal_parts():
    assert pieces_of(TEXT, 1) == [TEXT]
    first, second = pieces_of(TEXT, 2)
    assert first.endswith("all others are.")
    assert second == "Three follows. Four ends it."
    assert pieces_of(TEXT, 4) == [
        "One is short.",
        "Two is a sentence of some length, longer than all others are.",
        "Three follows.",
        "Four ends it.",
    ]


def test_a_text_of_fewer_sentences_has_fewer_pieces():
    assert pieces_of(TEXT, 9) == pieces_of(TEXT, 4)
    assert pieces_of(" no end mark at all ", 4) == [" no end mark at all "]


@given(
    st.lists(st.sampled_from(["A b. ", "Cc dd ee! ", "F? ", "Gg hh ii jj kk ll mm. "]), min_size=1), st.integers(1, 6)
)
def test_nothing_is_lost_or_empty(sentences, count):
    text = "".join(sentences).strip()
    pieces = pieces_of(text, count)
    assert " ".join(pieces) == text
    assert all(pieces)
    assert len(pieces) == min(count, len(list(sentence_cuts(text))) + 1)


def test_equal_sentences_are_shared_out_equally():
    lengths = [len(piece) for piece in pieces_of("Aa bb cc. " * 12, 4)]
    assert max(lengths) - min(lengths) <= len("Aa bb cc. ")
