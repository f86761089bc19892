"""The sections of the report, in their order."""

from collections.abc import Callable

from precog.evaluate.paper.findings import Findings, Written
from precog.evaluate.paper.sections.calculations import calculations, contradictions
from precog.evaluate.paper.sections.composition import composition
from precog.evaluate.paper.sections.horizon import horizon
from precog.evaluate.paper.sections.latency import latency
from precog.evaluate.paper.sections.layers import layers
from precog.evaluate.paper.sections.lengths import lengths
from precog.evaluate.paper.sections.main_result import main_result
from precog.evaluate.paper.sections.memory import memory
from precog.evaluate.paper.sections.theorem import theorem
from precog.evaluate.paper.sections.words import words

__all__ = ["SECTIONS"]

SECTIONS: tuple[Callable[[Findings], Written | None], ...] = (
    theorem,
    main_result,
    layers,
    composition,
    lengths,
    horizon,
    latency,
    memory,
    calculations,
    contradictions,
    words,
)
"""Each makes its section, or None where nothing of it was run."""
