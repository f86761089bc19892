"""Figures of a confidence against definitions written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precog.evaluate.reliability import auroc, coverage_at, reliability

answers = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=30)


@given(answers)
def test_auroc_is_the_share_of_pairs_in_the_right_order(rows):
    scores, right = np.array([score for score, _ in rows]), np.array([is_right for _, is_right in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[right] for b in scores[~right]]
    assert auroc(scores, right) == (pytest.approx(np.mean(pairs)) if pairs else None)


@given(answers)
def test_coverage_is_the_largest_that_a_threshold_reaches(rows):
    scores, right = np.array([score for score, _ in rows]), np.array([is_right for _, is_right in rows])
    reached = [0.0]
    for least in set(scores.tolist()):
        kept = scores >= least
        if right[kept].mean() >= 0.75:
            reached.append(float(kept.mean()))
    assert coverage_at(scores, right, 0.75) == pytest.approx(max(reached))


def test_a_probability_that_is_one_has_no_calibration_error_and_a_boast_has():
    rng = np.random.default_rng(0)
    said = rng.random((4000, 2))
    honest = reliability(said, rng.random((4000, 2)) < said)
    assert honest.calibration_error < 0.02
    assert len(honest.bins) == 10
    assert sum(count for _, _, count in honest.bins) == honest.n == 8000
    assert honest.auroc_interval is not None
    assert honest.auroc_interval[0] < honest.auroc < honest.auroc_interval[1]
    boast = reliability(np.ones((10, 1)), np.arange(10)[:, None] < 4)
    assert boast.calibration_error == pytest.approx(0.6)
    assert boast.auroc == 0.5


def test_risk_grows_with_coverage_where_scores_are_perfect():
    found = reliability(np.arange(10.0)[:, None] / 10, np.arange(10)[:, None] >= 5)
    assert found.auroc == 1.0
    assert found.coverage_at_precision == 0.5
    assert found.risk_coverage[4] == (0.5, 0.0)
    assert found.risk_coverage[9] == (1.0, 0.5)


def test_nothing_but_right_answers_has_no_area_under_a_curve():
    found = reliability(np.array([[0.5], [0.7]]), np.array([[True], [True]]))
    assert (found.auroc, found.auroc_interval, found.coverage_at_precision) == (None, None, 1.0)
    with pytest.raises(ValueError, match="no answers"):
        reliability(np.empty((0, 1)), np.empty((0, 1), bool))
