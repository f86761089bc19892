"""Named curves over one axis, ours beside the paper's: how a figure changes with tokens, chunks or k."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.figures.axis import Axis
from precog.figures.panel import Panel, draw_panels


@dataclass(frozen=True)
class Curves:
    """Panels of curves, as they are.

    Attributes:
        title: stands over the picture.
        panels: at most three in a row.
    """

    kind: ClassVar[str] = "curves"
    title: str
    panels: Sequence[Panel]

    def axes(self) -> Mapping[str, Axis]:
        """What each axis means."""
        return {f"panels[{n}].{which}": getattr(panel, which) for n, panel in enumerate(self.panels) for which in "xy"}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        draw_panels(path, self.title, self.panels)
