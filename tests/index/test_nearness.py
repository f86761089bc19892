"""Nearness of a question to a few texts: the hybrid score of a search over these texts alone."""

import numpy as np
import pytest

from precog.index import HybridIndex, IndexSource
from precog.index.nearness import DOUBT, MOST, nearest, nearness

TEXTS = ("The dog sleeps in the garden.", "A cat sits on the old wall.", "Rain fell on Paris in March.")


def _keys(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    keys = [rng.normal(size=(count, 8)).astype(np.float32) for count in (1, 2, 1)]
    return [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in keys]


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_score_that_a_hybrid_search_over_them_gives(seed: int) -> None:
    keys = _keys(seed)
    key = keys[1][1]
    source = IndexSource(
        chunk_ids=lambda: range(3),
        keys=lambda ids: ((i, keys[i]) for i in (range(3) if ids is None else ids)),
        texts=lambda ids: ((i, TEXTS[i]) for i in (range(3) if ids is None else ids)),
        generation=0,
        tag="",
        dim=8,
    )
    hits = HybridIndex.build(source).search("Where does the cat sit?", key, 3)
    scores = nearness("Where does the cat sit?", key, TEXTS, keys)
    assert {hit.chunk_id: hit.score for hit in hits} == pytest.approx(dict(enumerate(scores)), abs=1e-3)


def test_without_a_key_words_alone_decide() -> None:
    scores = nearness("rain in Paris", None, TEXTS, [])
    assert scores.index(max(scores)) == 2
    assert scores[1] == 0.0


def test_no_word_and_no_likeness_is_no_nearness() -> None:
    opposite = [-rows for rows in _keys(0)]
    assert nearness("xyzzy", _keys(0)[0][0], TEXTS[:1], opposite[:1]) == [0.0]


def test_those_that_are_nearly_as_near_are_in_doubt() -> None:
    assert nearest([0.4], "a") == [(0, 0.4)]
    assert nearest([0.2, 0.9, 0.9], "abc") == [(1, 0.9), (2, 0.9)]
    assert nearest([0.7, 0.1, 0.8, 0.75], "abcd") == [(2, 0.8), (3, 0.75), (0, 0.7)]


def test_one_that_is_far_behind_is_not_looked_at_and_no_more_than_so_many_are() -> None:
    assert [number for number, _ in nearest([1.0, 1.0 - DOUBT + 1e-6], "ab")] == [0, 1]
    assert nearest([1.0, 1.0 - DOUBT - 1e-6], "ab") == [(0, 1.0)]
    assert [number for number, _ in nearest([0.0] * (MOST + 2), "abcdefgh"[: MOST + 2])] == list(range(MOST))


def test_what_is_repeated_keeps_no_place_from_what_is_not() -> None:
    assert nearest([0.8, 0.9, 0.9, 0.9, 0.9, 0.8], "caaaab") == [(1, 0.9), (0, 0.8), (5, 0.8)]
    assert nearest([0.9] * 5, "aaaaa") == [(0, 0.9)]
