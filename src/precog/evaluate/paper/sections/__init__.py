"""The sections of the report, in their order."""

from collections.abc import Callable

from precog.evaluate.paper.findings import Findings, Written
from precog.evaluate.paper.sections.main_result import main_result

__all__ = ["SECTIONS"]

SECTIONS: tuple[Callable[[Findings], Written | None], ...] = (main_result,)
"""Each makes its section, or None where nothing of it was run."""
