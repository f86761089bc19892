import random

from hypothesis import given
from hypothesis import strategies as st

from precog.questions.spans import Span, SpanType, find_spans
from precog.train.data.counterfactual import EntityPool, choose_swaps, swap


def test_swap_replaces_whole_words_and_keeps_offsets() -> None:
    text = "Ann met Anna; Ann left in 1990."
    swapped = swap(text, {"Ann": "Beatrice", "1990": "2001"})
    assert swapped.text == "Beatrice met Anna; Beatrice left in 2001."
    for old, new in (("Anna", "Anna"), ("left", "left"), ("1990", "2001")):
        start, stop = swapped.moved(text.index(old), text.index(old) + len(old))
        assert swapped.text[start:stop] == new
    assert swap(text, {}).text == text
    assert swap(text, {}).moved(4, 7) == (4, 7)


@given(st.integers(0, 1000))
def test_replacements_are_consistent_and_of_the_type(seed: int) -> None:
    rng = random.Random(seed)
    pool = EntityPool()
    names = [f"Paul Miller{chr(97 + i)}" for i in range(26)]
    for name in names:
        pool.add(f"and {name}", [Span(4, 4 + len(name), SpanType.PERSON)])
    text = "In 1950 John Stone had 1,200 sheep; in 1960 Stone had 900."
    mapping = choose_swaps(text, find_spans(text), pool, rng, limit=20)
    assert mapping["John Stone"] in names
    assert mapping["Stone"] == mapping["John Stone"].split()[1]
    shift = int(mapping["1950"]) - 1950
    assert shift != 0
    assert int(mapping["1960"]) - 1960 == shift
    if "1,200" in mapping:
        assert len(mapping["1,200"]) == 5
        assert mapping["1,200"][1] == ","
    assert len(set(mapping.values())) == len(mapping)


def test_an_empty_pool_replaces_no_name() -> None:
    text = "Then John Stone left."
    assert choose_swaps(text, find_spans(text), EntityPool(), random.Random(0)) == {}
