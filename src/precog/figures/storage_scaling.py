"""Bytes against context tokens: caches grow with what was read, a state does not (paper, Fig. 2 and Table 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.errors import InputError
from precog.figures.axis import Axis
from precog.figures.checks import Number
from precog.figures.lines import Level, Line, Mark
from precog.figures.panel import Panel, draw_panels

_TOKENS = Axis("context", "tokens", "log")
_BYTES = Axis("storage per chunk", "B", "log")


@dataclass(frozen=True)
class Stored:
    """What one way of keeping a context takes.

    Attributes:
        name: in the key: a KV cache, a state, text.
        bytes: at each number of tokens.
    """

    name: str
    bytes: Sequence[Number]


@dataclass(frozen=True)
class StorageScaling:
    """What each way takes, with the points that the text speaks of.

    Attributes:
        title: stands over the picture.
        tokens: places, each more than zero.
        ways: with a value for each place.
        marks: points with a text, such as ``Mark("equal at 6 tokens", 6, 196608)``.
        chunk_tokens: the length the paper's figures are for, as an upright line; None for none.
    """

    kind: ClassVar[str] = "storage_scaling"
    title: str
    tokens: Sequence[Number]
    ways: Sequence[Stored]
    marks: Sequence[Mark] = ()
    chunk_tokens: Number | None = None

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, or one has no place on a logarithmic axis.
        """
        self._panel()

    def axes(self) -> Mapping[str, Axis]:
        """What each axis means."""
        return {"tokens": _TOKENS, "ways.bytes": _BYTES}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        draw_panels(path, self.title, [self._panel()], panel_width_inches=7.0, panel_height_inches=4.4)

    def _panel(self) -> Panel:
        if not self.ways:
            raise InputError("there is nothing to draw", given="0 ways of storing", expected="at least one")
        levels = (
            [] if self.chunk_tokens is None else [Level(f"chunk of {self.chunk_tokens:,} tokens", self.chunk_tokens)]
        )
        lines = [Line(way.name, self.tokens, way.bytes) for way in self.ways]
        return Panel("", _TOKENS, _BYTES, lines, levels=levels, marks=self.marks)
