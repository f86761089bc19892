"""What states cost in storage and save in latency: two panels (paper, Fig. 6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.figures.axis import Axis
from precog.figures.checks import Number
from precog.figures.lines import Level, Line, Mark
from precog.figures.panel import Panel, draw_panels
from precog.figures.told import seconds_told

_CHUNKS = Axis("chunks in the corpus", "", "log")
_BYTES = Axis("storage", "B", "log")
_TOKENS = Axis("chunk", "tokens", "log")
_LATENCY = Axis("context latency per question", "s", "log")


@dataclass(frozen=True)
class TradeOff:
    """Storage of a corpus over its size, and latency of a context over its length.

    Attributes:
        title: stands over the picture.
        storage: bytes over chunks, a line for each way of keeping them.
        latency: seconds over tokens of the chunk, a line for each way of taking it in.
        limit_sec: what people take for immediate; None for no line.
        storage_marks: points with a text in the first panel.
        latency_marks: in the second.
    """

    kind: ClassVar[str] = "trade_off"
    title: str
    storage: Sequence[Line]
    latency: Sequence[Line]
    limit_sec: Number | None = 1.0
    storage_marks: Sequence[Mark] = ()
    latency_marks: Sequence[Mark] = ()

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, or one has no place on a logarithmic axis.
        """
        self._panels()

    def axes(self) -> Mapping[str, Axis]:
        """What each axis means."""
        return {"storage.xs": _CHUNKS, "storage.ys": _BYTES, "latency.xs": _TOKENS, "latency.ys": _LATENCY}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        draw_panels(path, self.title, self._panels())

    def _panels(self) -> list[Panel]:
        limit = (
            []
            if self.limit_sec is None
            else [Level(f"{seconds_told(self.limit_sec)}: felt as a wait", y=self.limit_sec)]
        )
        return [
            Panel("storage", _CHUNKS, _BYTES, self.storage, marks=self.storage_marks),
            Panel("latency", _TOKENS, _LATENCY, self.latency, levels=limit, marks=self.latency_marks),
        ]
