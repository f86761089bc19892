"""What is claimed of a figure, and whether it held."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from precog.engine.conformance import FP32_BOUND

FP64_BOUND = 1e-10
"""max |Δlogit| that counts as exact at FP64: a million times less than FP32's."""
FP64_EXPECTED = FP32_BOUND * 2.0**-29
"""What it may be if FP64 rounds as FP32 does, in its own units; how sums are split differs, so it is no law."""


@dataclass(frozen=True)
class Bound:
    """A figure against what it may be.

    Attributes:
        name: of the claim.
        model: that it was measured on.
        value: what was measured.
        limit: what it is compared with.
        most: whether it may be at most that; else it must be more, because a failure is claimed.
        judged: whether the part stands or falls with it; else it is an expectation that depends on the model.
    """

    name: str
    model: str
    value: float
    limit: float
    most: bool = True
    judged: bool = True

    @property
    def holds(self) -> bool:
        """Whether it held; nothing does that is no number, and an infinite error is none: it stands for one."""
        return math.isfinite(self.value) and (self.value <= self.limit if self.most else self.value > self.limit)

    def to_json(self) -> dict[str, object]:
        """As it is reported."""
        return {
            "name": self.name,
            "model": self.model,
            "value": self.value,
            "bound": self.limit,
            "kind": "at most" if self.most else "more than",
            "judged": self.judged,
            "holds": self.holds,
        }


def part(meaning: str, bounds: Sequence[Bound], **figures: object) -> dict[str, object]:
    """A part of the report: what it means, whether it holds, its bounds, its figures."""
    return {
        "holds": bool(bounds) and all(bound.holds for bound in bounds if bound.judged),
        "meaning": meaning,
        "bounds": [bound.to_json() for bound in bounds],
        **figures,
    }
