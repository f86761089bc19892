"""How well a number tells right from wrong, and whether it is the probability it claims to be.

Rows are questions, columns are answers to them: intervals resample questions and keep their answers together.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["NUM_BINS", "PRECISION", "Reliability", "auroc", "coverage_at", "reliability"]

Scores = Float[np.ndarray, "n k"]
Labels = Bool[np.ndarray, "n k"]
NUM_BINS = 10
PRECISION = 0.9
RESAMPLES = 1000
COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Reliability:
    """Of one number as a sign of one thing.

    Attributes:
        n: answers.
        base_rate: share of them that are right.
        auroc: probability that a right one has a higher number than a wrong one, ties counted half; None where all are
            right or all are wrong.
        auroc_interval: 95 %, from a bootstrap over questions.
        coverage_at_precision: largest share of answers, the surest first, of which `PRECISION` are right.
        risk_coverage: (coverage, risk): the share that is wrong among the surest so many.
        calibration_error: expected, over `NUM_BINS` bins of equal width: mean distance of number and truth.
        bins: (mean number, share right, answers) of each bin that is not empty.
    """

    n: int
    base_rate: float
    auroc: float | None
    auroc_interval: tuple[float, float] | None
    coverage_at_precision: float
    risk_coverage: tuple[tuple[float, float], ...]
    calibration_error: float
    bins: tuple[tuple[float, float, int], ...]

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "n": self.n,
            "base_rate": self.base_rate,
            "auroc": self.auroc,
            "auroc_interval": None if self.auroc_interval is None else list(self.auroc_interval),
            "coverage_at_precision": {"precision": PRECISION, "coverage": self.coverage_at_precision},
            "risk_coverage": [{"coverage": coverage, "risk": risk} for coverage, risk in self.risk_coverage],
            "calibration_error": self.calibration_error,
            "bins": [{"confidence": said, "right": right, "n": count} for said, right, count in self.bins],
        }


def reliability(scores: Scores, right: Labels, *, seed: int = 0) -> Reliability:
    """Sum up answers; deterministic under the seed of the bootstrap.

    Raises:
        ValueError: there is no answer.
    """
    if not scores.size:
        raise ValueError("no answers to sum up")
    found = auroc(scores, right)
    flat, truth = scores.ravel(), right.ravel()
    order = np.argsort(-flat, kind="stable")
    wrong = np.cumsum(~truth[order])
    counts = [max(1, round(share * len(order))) for share in COVERAGES]
    bins = []
    numbers = np.minimum((flat * NUM_BINS).astype(int), NUM_BINS - 1)
    for number in range(NUM_BINS):
        inside = numbers == number
        if inside.any():
            bins.append((float(flat[inside].mean()), float(truth[inside].mean()), int(inside.sum())))
    return Reliability(
        n=len(flat),
        base_rate=float(truth.mean()),
        auroc=found,
        auroc_interval=None if found is None else _interval(scores, right, seed),
        coverage_at_precision=coverage_at(flat, truth, PRECISION),
        risk_coverage=tuple((count / len(order), float(wrong[count - 1] / count)) for count in counts),
        calibration_error=sum(count * abs(said - share) for said, share, count in bins) / len(flat),
        bins=tuple(bins),
    )


def auroc(scores: Float[np.ndarray, "..."], right: Bool[np.ndarray, "..."]) -> float | None:
    """Area under the curve of true against false positives; None where one of the two does not occur."""
    scores, right = scores.ravel(), right.ravel()
    num_right = int(right.sum())
    if num_right in (0, len(right)):
        return None
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # from 1; those of equal scores share their mean
    above = ranks[right].sum() - num_right * (num_right + 1) / 2
    return float(above / (num_right * (len(right) - num_right)))


def coverage_at(scores: Float[np.ndarray, " m"], right: Bool[np.ndarray, " m"], precision: float) -> float:
    """The largest share of answers, the highest scores first, of which so many are right; no threshold parts ties."""
    order = np.argsort(-scores, kind="stable")
    sorted_scores = scores[order]
    ends = np.append(sorted_scores[1:] != sorted_scores[:-1], True)
    shares = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(ends & (shares >= precision))
    return float((good[-1] + 1) / len(order)) if len(good) else 0.0


def _interval(scores: Scores, right: Labels, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        rows = rng.integers(len(scores), size=len(scores))
        value = auroc(scores[rows], right[rows])
        if value is not None:
            found.append(value)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
