"""Coefficients that are known are found again."""

import numpy as np
import pytest

from precog.engine.evidence import FEATURES
from precog.errors import InputError
from precog.evaluate.calibrating import fit_calibration

TRUE = {"no_answer": -0.8, "free_entropy": -1.5}
BIAS = 0.4


def made(count):
    rng = np.random.default_rng(0)
    rows = [dict(zip(FEATURES, rng.normal(size=len(FEATURES)).tolist(), strict=True)) for _ in range(count)]
    odds = np.array([BIAS + sum(weight * row[name] for name, weight in TRUE.items()) for row in rows])
    right = rng.random(count) < 1 / (1 + np.exp(-odds))
    return rows, right.tolist()


def test_known_coefficients_are_found_again():
    rows, right = made(6000)
    found = fit_calibration(rows, right, list(range(6000)), {"questions": 6000})
    assert found.bias == pytest.approx(BIAS, abs=0.12)
    for name in FEATURES:
        assert found.weights[name] == pytest.approx(TRUE.get(name, 0.0), abs=0.15)
    assert found.fitted == {"questions": 6000}
    said = np.array([found.probability(row) for row in rows])
    assert said.mean() == pytest.approx(np.mean(right), abs=1e-3)  # what a regression with a bias keeps
    kept = said >= found.threshold
    assert kept[np.array(right)].mean() == pytest.approx(0.9, abs=0.01)
    assert kept[~np.array(right)].mean() < 0.6


def test_the_same_answers_give_the_same_coefficients():
    rows, right = made(300)
    assert fit_calibration(rows, right, list(range(300))) == fit_calibration(rows, right, list(range(300)))


def test_evidence_that_never_changes_is_no_obstacle():
    rows, right = made(300)
    rows = [{**row, "log_probability": 0.0} for row in rows]
    assert fit_calibration(rows, right, list(range(300))).weights["log_probability"] == 0.0


def test_too_few_answers_are_refused():
    rows, _ = made(100)
    with pytest.raises(InputError, match="too few answers to fit"):
        fit_calibration(rows, [True] * 90 + [False] * 10, list(range(100)))


@pytest.mark.parametrize("value", [-30.1, 0.1, -4.7])
def test_evidence_that_is_always_the_same_adds_nothing(value):
    rows, right = made(300)
    found = fit_calibration([{**row, "log_probability": value} for row in rows], right, list(range(300)))
    assert found.weights["log_probability"] == 0.0
    assert abs(found.bias) < 2
