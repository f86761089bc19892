"""How near a question is to each of a few texts, by meaning and by words: the hybrid score, made on the spot."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from precog.index.lexical import LexicalIndex

# by answers over held-out articles (docs/decisions/0011-sentences-beside-chunks.md)
DOUBT = 0.3
"""A text that is no further behind the nearest may be the one that is asked about."""
MOST = 3
"""Texts that are looked at."""


def nearness(
    question: str,
    key: Float32[np.ndarray, " E"] | None,
    texts: Sequence[str],
    keys: Sequence[Float32[np.ndarray, "_ E"]],
) -> list[float]:
    """½ · dense / max dense + ½ · BM25 / max BM25 of every text, each maximum taken over these texts.

    Args:
        question: in words.
        key: of the question; None where words alone are compared.
        texts: at least one.
        keys: of each text, one row per window; the nearest counts.
    """
    lexical = LexicalIndex.build(enumerate(texts)).scores(question)
    words = lexical / max(float(lexical.max(initial=0)), 1e-6)
    if key is None:
        return [float(score) for score in words]
    dense = np.array([max(0.0, float((own @ key).max(initial=0))) for own in keys])
    return [float(score) for score in 0.5 * dense / max(float(dense.max(initial=0)), 1e-6) + 0.5 * words]


def nearest(scores: Sequence[float], texts: Sequence[str]) -> list[tuple[int, float]]:
    """The nearest text and those that are nearly as near, at most `MOST`, each with its score; of equals the first.

    What says the same, letter by letter, is looked at once.

    Args:
        scores: nearness of every text; at least one.
        texts: these.
    """
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    near = [number for number in order if scores[order[0]] - scores[number] <= DOUBT]
    different = {texts[number]: number for number in reversed(near)}  # of every text the first place
    return [(number, scores[number]) for number in near if different[texts[number]] == number][:MOST]
