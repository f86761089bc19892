"""SQuAD v1.1 answer metrics: exact match, token F1, and bootstrap intervals.

Normalisation as the official evaluation defines it: lower-case, drop ASCII punctuation, drop the articles a, an, the,
collapse white space. Scores are in percent.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Interval", "bootstrap", "exact_match", "f1", "normalise", "paired_bootstrap"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_BLOCK = 256  # resamples drawn at once, bounding memory


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its percentile bootstrap interval."""

    mean: float
    low: float
    high: float


def normalise(text: str) -> str:
    """The official SQuAD v1.1 normal form of an answer."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """100.0 if the prediction equals any answer after normalisation, else 0.0."""
    given = normalise(prediction)
    return 100.0 if any(given == normalise(answer) for answer in answers) else 0.0


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Token F1 in percent against the best of the answers; 0.0 if nothing is shared."""
    return max((_f1(prediction, answer) for answer in answers), default=0.0)


def _f1(prediction: str, answer: str) -> float:
    given, wanted = normalise(prediction).split(), normalise(answer).split()
    shared = sum((Counter(given) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 100.0 * 2 * precision * recall / (precision + recall)


def bootstrap(scores: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """The mean of scores with a percentile bootstrap interval.

    Args:
        scores: one per question; at least one.
        level: coverage of the interval.
        resamples: bootstrap samples.
        seed: of the resampling.

    Raises:
        ValueError: no score is given.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        raise ValueError("no scores to average")
    rng = np.random.default_rng(seed)
    means = np.concatenate([
        values[rng.integers(len(values), size=(min(_BLOCK, resamples - done), len(values)))].mean(axis=1)
        for done in range(0, resamples, _BLOCK)
    ])  # fmt: skip
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """The mean of first − second over the same questions, with its interval; the pairs are resampled together.

    Raises:
        ValueError: the two do not score the same number of questions, or none.
    """
    if len(first) != len(second):
        raise ValueError(f"paired scores of different lengths: {len(first)} and {len(second)}")
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    return bootstrap(differences.tolist(), level=level, resamples=resamples, seed=seed)
