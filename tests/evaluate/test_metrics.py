import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.evaluate.metrics import Interval, bootstrap, exact_match, f1, normalise, paired_bootstrap


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Quick, brown\tfox!", "quick brown fox"),
        ("a an the", ""),
        ("U.S.", "us"),
        ("$3.50", "350"),
        ("Theatre and anthem", "theatre and anthem"),
        ("the-end", "theend"),  # punctuation goes before articles, so nothing is an article here
        ("  The ", ""),
        ("“café”", "“café”"),  # only ASCII punctuation is dropped
    ],
)
def test_normal_form_follows_the_official_order(text: str, normal: str) -> None:
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("prediction", "answers", "em", "score"),
    [
        ("Denver Broncos", ["the Denver Broncos."], 100.0, 100.0),
        ("Broncos", ["Denver Broncos"], 0.0, 200 / 3),  # P 1, R 1/2
        ("the city of Paris France", ["Paris"], 0.0, 40.0),  # 4 tokens after the article: P 1/4, R 1
        ("red red blue", ["red blue blue"], 0.0, 200 / 3),  # multiset overlap 2 of 3 and 3
        ("Rome", ["Paris", "Rome, Italy"], 0.0, 200 / 3),  # the best of the answers
        ("Paris", ["Rome", "paris"], 100.0, 100.0),
        ("", ["Rome"], 0.0, 0.0),
        ("the", ["a"], 100.0, 0.0),  # both empty: the official script gives EM 1 and F1 0
    ],
)
def test_hand_worked_scores(prediction: str, answers: list[str], em: float, score: float) -> None:
    assert exact_match(prediction, answers) == em
    assert math.isclose(f1(prediction, answers), score)


def test_no_answers_score_zero() -> None:
    assert exact_match("x", []) == 0.0
    assert f1("x", []) == 0.0


@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_symmetric_and_normal_form_is_stable_in_score(a: str, b: str) -> None:
    assert math.isclose(f1(a, [b]), f1(b, [a]), abs_tol=1e-9)
    assert 0.0 <= f1(a, [b]) <= 100.0 + 1e-9


def test_bootstrap_of_constant_scores_is_a_point() -> None:
    assert bootstrap([40.0] * 7) == Interval(40.0, 40.0, 40.0)


def test_bootstrap_interval_has_about_the_normal_width() -> None:
    scores = [0.0, 100.0] * 200
    interval = bootstrap(scores, resamples=3000, seed=1)
    half = 1.96 * 50 / math.sqrt(400)
    assert interval.mean == 50.0
    assert interval.high - interval.mean == pytest.approx(half, rel=0.1)
    assert interval.mean - interval.low == pytest.approx(half, rel=0.1)
    assert bootstrap(scores, resamples=3000, seed=1) == interval


def test_pairing_removes_shared_noise() -> None:
    first = [float(i % 97) for i in range(300)]
    second = [x - 2.0 for x in first]
    assert paired_bootstrap(first, second) == Interval(2.0, 2.0, 2.0)


def test_bad_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="no scores"):
        bootstrap([])
    with pytest.raises(ValueError, match="different lengths: 1 and 2"):
        paired_bootstrap([1.0], [1.0, 2.0])
