"""The parts of a chunk: its sentences, none lost, none too small to be asked about."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from precog.text.chunking.parts import LEAST_CHARS, LONG_CHARS, parts_of

TEXT = "Marie Curie was born in Warsaw in 1867. She moved to Paris to study physics. Yes. Her husband was Pierre Curie."


def test_sentences_are_parts_and_short_ones_join_the_one_before() -> None:
    assert [TEXT[start:stop] for start, stop in parts_of(TEXT)] == [
        "Marie Curie was born in Warsaw in 1867.",
        "She moved to Paris to study physics. Yes.",
        "Her husband was Pierre Curie.",
    ]


def test_a_single_sentence_has_no_parts() -> None:
    assert parts_of("Only one sentence stands here, and it is long enough.") == []
    assert parts_of("") == []
    assert parts_of(" \n ") == []


def test_a_short_beginning_joins_what_follows() -> None:
    text = "Chapter four.\n\nThe second law says that entropy grows. Nobody has seen it shrink anywhere."
    assert next(text[start:stop] for start, stop in parts_of(text)).startswith("Chapter four.\n\nThe second law")


def test_long_lists_are_parted_at_their_lines_and_wrapped_lines_are_not() -> None:
    table = "\n".join(f"row {number} | some cells of this row | {number * 7}" for number in range(30))
    assert len(table) > LONG_CHARS
    assert len(parts_of(table)) == 30
    wrapped = "This sentence was wrapped\nat the end of a line by hand. And here is another one\nlike it, as long."
    assert len(parts_of(wrapped)) == 2


@given(st.text(alphabet="ab .!?\n。", max_size=400))
def test_parts_cover_everything_but_white_space(text: str) -> None:
    parts = parts_of(text)
    if not parts:
        return
    assert all(text[start:stop].strip() == text[start:stop] != "" for start, stop in parts)
    assert all(before[1] <= after[0] for before, after in pairwise(parts))
    ends = zip([0, *(stop for _, stop in parts)], [*(start for start, _ in parts), len(text)], strict=True)
    assert "".join(text[start:stop] for start, stop in ends).strip() == ""
    assert sum(stop - start < LEAST_CHARS for start, stop in parts) <= 1
