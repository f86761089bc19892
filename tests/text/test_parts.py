"""The parts of a chunk: its sentences, none lost, none too small to be asked about."""

import re
from itertools import pairwise

import pytest
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
    text = "Chapter four. The second law says that entropy grows. Nobody has seen it shrink anywhere."
    assert next(text[start:stop] for start, stop in parts_of(text)).startswith("Chapter four. The second law")


@pytest.mark.parametrize("heading", ["The harbour of Skarvik\n\n", "# The harbour of Skarvik\n", "### Port\n\n"])
def test_no_part_crosses_a_blank_line_or_a_heading(heading: str) -> None:
    first, second = "Skarvik is a small port in the west.", "Its quay was built of granite in 1911."
    text = f"Nothing is known of the years before.\n\n{heading}{first} {second}\n\nSome forty boats fish there"
    assert [text[start:stop] for start, stop in parts_of(text)] == [
        "Nothing is known of the years before.",
        first,
        second,
        "Some forty boats fish there",
    ]


def test_rows_of_tables_are_parts_and_their_rules_are_none() -> None:
    rows = ["| light | keeper |", "|---|:--:|", "| Gull Rock | Ellen Crowe |", "| Tiree | Ida |"]
    text = "The lights are these. Nobody keeps the others.\n" + "\n".join(rows) + "\n\nThat was all there is to tell."
    assert [text[start:stop] for start, stop in parts_of(text)] == [
        "The lights are these. Nobody keeps the others.",
        *(row for row in rows if "-" not in row),
        "That was all there is to tell.",
    ]
    text = "country | capital\nLaos | Vientiane\nEstonia | Tallinn\n"
    assert [text[start:stop] for start, stop in parts_of(text)] == text.splitlines()


def test_a_bar_in_a_sentence_makes_no_table() -> None:
    text = "The union of both types is written as int | str\nwherever it stands. The rest of them is as it was before."
    assert len(parts_of(text)) == 2


def test_long_lists_are_parted_at_their_lines_and_wrapped_lines_are_not() -> None:
    listed = "\n".join(f"row {number}: some words of this row, {number * 7}" for number in range(30))
    assert len(listed) > LONG_CHARS
    assert len(parts_of(listed)) == 30
    wrapped = "This sentence was wrapped\nat the end of a line by hand. And here is another one\nlike it, as long."
    assert len(parts_of(wrapped)) == 2


@given(st.text(alphabet="ab .!?\n。|#", max_size=400))
def test_parts_are_in_order_and_whole_paragraphs_are_covered(text: str) -> None:
    parts = parts_of(text)
    assert all(text[start:stop].strip() == text[start:stop] != "" for start, stop in parts)
    assert all(before[1] <= after[0] for before, after in pairwise(parts))
    assert not any("\n\n" in text[start:stop] for start, stop in parts)
    if not parts or "|" in text or "#" in text:
        return
    ends = zip([0, *(stop for _, stop in parts)], [*(start for start, _ in parts), len(text)], strict=True)
    left_out = "".join(text[start:stop] for start, stop in ends)
    assert all(len(paragraph.strip()) < LEAST_CHARS for paragraph in re.split(r"\n\s*\n", left_out))
