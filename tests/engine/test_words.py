"""Answers are made of whole words."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.backbones.tenns.backbone import TennsBackbone
from precog.engine import GroundedSettings, Source, ground
from precog.engine.words import word_edges
from precog.text.tokenizer import load_mistral_tokenizer

TOKENIZER = load_mistral_tokenizer()


def words_between_edges(text):
    ids = TOKENIZER.encode(text)
    edges = np.flatnonzero(word_edges(TOKENIZER, np.array(ids)))
    found = [TOKENIZER.decode(ids[a:b]).strip() for a, b in itertools.pairwise(edges)]
    return [word for word in found if word]  # a space can be a token of its own


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Velvet Underground", ["Velvet", "Underground"]),
        ("it has 5,199 metres, or 3.14 miles.", ["it", "has", "5,199", "metres", ",", "or", "3.14", "miles", "."]),
        ("in 1815.", ["in", "1815", "."]),
        ("naïveté Škoda", ["naïveté", "Škoda"]),
    ],
)
def test_edges_separate_words_and_numbers(text, words):
    assert words_between_edges(text) == words


def test_scripts_without_spaces_may_be_cut_anywhere():
    ids = np.array(TOKENIZER.encode("東京は日本の首都"))
    assert word_edges(TOKENIZER, ids)[2:-1].all()


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.sampled_from(["Velvet", "underground", "5,199", "naïveté", "of", "(see", "1815)", "a"]),
        min_size=1,
        max_size=9,
    )
)
def test_a_grounded_answer_is_made_of_whole_words(words):
    text = " ".join(words)
    backbone = TennsBackbone.random("tiny-outer", TOKENIZER)
    ids = TOKENIZER.encode(text)
    found = ground(backbone, None, [1, 500, 600], [Source.of(ids)], GroundedSettings(beam_width=3))
    edges = word_edges(TOKENIZER, np.array(ids))
    assert found.spans
    for span in found.spans:
        assert span.token_ids == tuple(ids[span.start : span.start + span.length])
        assert edges[span.start]
        assert edges[span.start + span.length]


def test_an_endless_word_is_still_answered():
    backbone = TennsBackbone.random("tiny-outer", TOKENIZER)
    ids = TOKENIZER.encode("x" * 400)
    found = ground(backbone, None, [1, 500], [Source.of(ids)], GroundedSettings(beam_width=2, max_span_tokens=5))
    assert 1 <= found.best.length <= 5


def test_an_answer_is_never_mere_white_space():
    backbone = TennsBackbone.random("tiny-outer", TOKENIZER)
    ids = TOKENIZER.encode("1874\n\n\n  \n 5 \n\n ")
    found = ground(backbone, None, [1, 500], [Source.of(ids)], GroundedSettings(beam_width=8))
    assert all(TOKENIZER.decode(span.token_ids).strip() for span in found.spans)
