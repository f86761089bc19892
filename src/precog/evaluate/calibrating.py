"""Fitting what makes a probability of a model's scores: logistic regression over answers of known truth."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float

from precog.backbones.card import Json
from precog.engine.confidence import Calibration
from precog.engine.evidence import FEATURES
from precog.errors import InputError

__all__ = ["FEWEST", "fit_calibration"]

FEWEST = 40
"""Answers that are true, and that are not, below which nothing is fitted."""
RIDGE = 1.0  # a Gaussian prior over coefficients of standardised features, as much as one answer
CONSTANT = 1e-9
FOLDS = 5
KEPT = 0.9
STEPS = 100


def fit_calibration(
    evidence: Sequence[Mapping[str, float]],
    right: Sequence[bool],
    groups: Sequence[int],
    fitted: Mapping[str, Json] | None = None,
) -> Calibration:
    """Coefficients, and the threshold that keeps `KEPT` of what is true.

    What is true alone decides the threshold, by the probability that each gets from the other folds: how often a
    retrieval fails, which nobody knows here, does not move it.

    Args:
        evidence: of each answer, by name of the feature.
        right: whether what is to be told is true of it, such as that its passage holds the answer.
        groups: which question it answers: answers to one question are never in two folds.
        fitted: what is kept with the coefficients about the data.

    Raises:
        InputError: too few right or wrong answers.
    """
    if min(sum(right), len(right) - sum(right)) < FEWEST:
        given = f"{sum(right)} right, {len(right) - sum(right)} wrong"
        raise InputError("too few answers to fit a confidence to", given=given, expected=f"at least {FEWEST} of each")
    rows = np.array([[own[name] for name in FEATURES] for own in evidence], dtype=np.float64)
    truth = np.array(right, dtype=bool)
    folds = np.unique(np.array(groups), return_inverse=True)[1] % FOLDS
    unseen = np.empty(len(truth))
    for fold in range(FOLDS):
        own = folds == fold
        weights, bias = _regression(rows[~own], truth[~own])
        unseen[own] = 1 / (1 + np.exp(-(rows[own] @ weights + bias)))
    weights, bias = _regression(rows, truth)
    return Calibration(
        bias=round(bias, 6),
        weights={name: round(float(weight), 6) for name, weight in zip(FEATURES, weights, strict=True)},
        threshold=round(float(np.quantile(unseen[truth], 1 - KEPT)), 3),
        fitted=dict(fitted or {}),
    )


def _regression(rows: Float[np.ndarray, "m F"], right: Bool[np.ndarray, " m"]) -> tuple[Float[np.ndarray, " F"], float]:
    """Coefficients and bias by Newton's method, with a ridge over all but the bias."""
    mean, spread = rows.mean(0), rows.std(0)
    is_constant = spread <= CONSTANT * np.maximum(1, np.abs(mean))  # but for rounding; it tells nothing
    spread[is_constant] = 1.0
    design = np.column_stack([np.where(is_constant, 0.0, (rows - mean) / spread), np.ones(len(rows))])
    ridge = np.diag([RIDGE] * rows.shape[1] + [1e-9])
    found = np.zeros(design.shape[1])
    for _ in range(STEPS):
        said = 1 / (1 + np.exp(-np.clip(design @ found, -500, 500)))
        slope = design.T @ (said - right) + ridge @ found
        curvature = (design * (said * (1 - said))[:, None]).T @ design + ridge
        step = np.linalg.solve(curvature, slope)
        found = found - step
        if np.abs(step).max() < 1e-9:
            break
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ mean)
