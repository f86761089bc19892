"""The sections of the report, in their order."""

from collections.abc import Callable

from precog.evaluate.paper.findings import Findings, Written
from precog.evaluate.paper.sections.horizon import horizon
from precog.evaluate.paper.sections.latency import latency
from precog.evaluate.paper.sections.main_result import main_result
from precog.evaluate.paper.sections.memory import memory

__all__ = ["SECTIONS"]

SECTIONS: tuple[Callable[[Findings], Written | None], ...] = (main_result, horizon, latency, memory)
"""Each makes its section, or None where nothing of it was run."""
