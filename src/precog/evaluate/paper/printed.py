"""What the paper prints of its own measurements; its calculations are in `precog.plan`."""

from dataclasses import dataclass

__all__ = [
    "CHUNK_LENGTH",
    "CLUSTERS",
    "DEPTH",
    "MAIN",
    "MEMORY_TOKENS",
    "OTHERS",
    "TOP_K",
    "ByLength",
    "Score",
    "TopK",
]


@dataclass(frozen=True)
class Score:
    """EM and F1 in percent."""

    em: float
    f1: float


@dataclass(frozen=True)
class TopK:
    """A row of Table 7; ``recall`` as the paper defines it, of both supporting paragraphs (ERRATA 17)."""

    em: float
    f1: float
    recall: float


@dataclass(frozen=True)
class ByLength:
    """A row of Table 8: share of the questions in percent, F1 of PRECOG and in context."""

    share: float
    inject: float
    in_context: float


MAIN = {"in_context": Score(58.2, 73.6), "inject_top1": Score(58.0, 73.4), "inject_top3": Score(56.4, 71.8)}
"""Table 3, SQuAD v1.1 dev, 1,000 questions."""

DEPTH = {
    "all": Score(58.0, 73.4),
    "bottom 3/4": Score(57.5, 73.0),
    "bottom 1/2": Score(57.0, 72.5),
    "bottom 1/4": Score(51.0, 68.0),
    "top 1/2": Score(47.0, 65.0),
    "top 1/4": Score(38.0, 58.0),
    "alternate": Score(54.0, 70.0),
    "none": Score(22.0, 35.0),
}
"""Table 6, by the share of the 24 layers that is injected."""

TOP_K = {
    1: TopK(36.0, 48.0, 0.65),
    2: TopK(42.0, 54.0, 0.82),
    3: TopK(43.0, 55.5, 0.89),
    5: TopK(40.0, 53.0, 0.95),
    10: TopK(36.0, 49.0, 0.98),
}
"""Table 7, HotpotQA-distractor, 1,000 questions."""

CHUNK_LENGTH = {
    "<100": ByLength(15.0, 65.0, 65.0),
    "[100,300)": ByLength(35.0, 64.5, 64.5),
    "[300,600)": ByLength(25.0, 63.5, 64.0),
    "[600,1200)": ByLength(15.0, 60.0, 63.5),
    "[1200,2400)": ByLength(7.0, 54.0, 62.0),
    ">=2400": ByLength(3.0, 45.0, 60.0),
}
"""Table 8, Natural Questions, by tokens of the passage."""

MEMORY_TOKENS = 256
"""Appendix B: tokens that dominate a 512-token chunk's state, at a threshold of 1e-3."""

CLUSTERS = {"emotional": 1.55, "temporal": 1.87, "social": 1.56, "spatial": 3.77, "factual": 3.27}
"""Table 10: inter / intra distance of sub-clusters by domain."""
OTHERS = 657
"""Figure 8: chunks of the spatial domain that fit no sub-cluster."""
