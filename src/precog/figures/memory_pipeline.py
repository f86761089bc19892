"""How conversations become a memory, and a memory the start of a session (paper, Fig. 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.figures.axis import Axis
from precog.figures.checks import Number, check_names, check_numbers
from precog.figures.diagram import FAINT, KEPT, MODEL, PLAIN, Arrow, Box, Sheet, Text, draw_sheet
from precog.figures.told import bytes_told, seconds_told

_BYTES, _TIME, _TOKENS = Axis("size", "B"), Axis("time", "s"), Axis("length", "tokens")
_WIDTH = 10.9
_LINE = 0.3


@dataclass(frozen=True)
class Dial:
    """How many states of a chunk's course are kept.

    Attributes:
        name: such as ``K = 1``.
        meaning: in a word or two, such as ``semantic``.
        bytes: of a chunk kept so; None for no figure.
    """

    name: str
    meaning: str
    bytes: Number | None = None


@dataclass(frozen=True)
class MemoryPipeline:
    """The way from utterances to the start of a session.

    Attributes:
        title: stands over the picture.
        domains: names; the first is shown as the one that a chunk is routed to.
        subclusters: of the first domain; the first is shown as the one that a chunk is routed to.
        dial: settings, the most faithful first; what the last keeps goes into the semantic state.
        header: what a chunk's header tells.
        chunk_tokens: of a chunk; None for no figure.
        state_bytes: of a semantic state; None for no figure.
        alpha: weight of a new deposit in the semantic state; None for no figure.
        start_sec: of a session's start; None for no figure.
    """

    kind: ClassVar[str] = "memory_pipeline"
    title: str
    domains: Sequence[str]
    subclusters: Sequence[str]
    dial: Sequence[Dial]
    header: Sequence[str] = ("time", "speaker", "place")
    chunk_tokens: Number | None = None
    state_bytes: Number | None = None
    alpha: Number | None = None
    start_sec: Number | None = None

    def __post_init__(self) -> None:
        """Checks names and numbers.

        Raises:
            InputError: there are no domains, sub-clusters or settings, or too many; or a number is negative or none.
        """
        check_names("domains", self.domains, most=8)
        check_names("sub-clusters", self.subclusters, most=8)
        check_names("settings of the dial", [setting.name for setting in self.dial], most=4)
        check_names("parts of the header", self.header, least=0, most=4)
        numbers = [self.chunk_tokens, self.state_bytes, self.alpha, self.start_sec, *(each.bytes for each in self.dial)]
        check_numbers("a label", [number for number in numbers if number is not None], sign="zero or more")

    def axes(self) -> Mapping[str, Axis]:
        """What the labels mean."""
        return {"chunk_tokens": _TOKENS, "state_bytes": _BYTES, "dial.bytes": _BYTES, "start_sec": _TIME}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        draw_sheet(path, self.title, self._sheet())

    def _sheet(self) -> Sheet:
        listed = max(len(self.domains), len(self.subclusters))
        tall = max(1.5, 0.45 + _LINE * listed)
        low, upper = 1.05, 2.1 + 0.45 + tall / 2
        height = upper + tall / 2 + 0.2
        said = Box(0.95, upper, 1.5, 0.9, "utterances", ["of a conversation"])
        length = [] if self.chunk_tokens is None else [f"{self.chunk_tokens:,} tokens"]
        chunk = Box(
            2.95, upper, 1.6, 1.35, "chunk", [*length, *([f"header: {', '.join(self.header)}"] if self.header else [])]
        )
        model = Box(5.05, upper, 1.7, 1.1, "model reads it", ["its course of states:", "h₁ … h(N)"], fill=MODEL)
        domain = Box(7.25, upper, 1.75, tall, "domain", fill=FAINT, top=True)
        sub = Box(9.65, upper, 2.1, tall, "sub-cluster", fill=FAINT, top=True)
        dials = self._dials(low)
        semantic = Box(4.35, low, 2.1, 1.1, "semantic state", [*self._average(), *_size(self.state_bytes)], fill=KEPT)
        start_note = ["injected, nothing read", *([] if self.start_sec is None else [seconds_told(self.start_sec)])]
        start = Box(1.4, low, 2.1, 0.95, "session start", start_note, fill=MODEL)
        kept = Box(8.35, low, 4.7, 1.75, "", fill=FAINT)
        return Sheet(
            _WIDTH,
            height,
            [
                said,
                chunk,
                model,
                domain,
                sub,
                *_list(domain, self.domains),
                *_list(sub, self.subclusters),
                kept,
                *dials,
                semantic,
                start,
            ],
            [
                Arrow([said.right, chunk.left]),
                Arrow([chunk.right, model.left]),
                Arrow([model.right, domain.left]),
                Arrow([domain.right, sub.left]),
                Arrow([sub.below, (sub.x, kept.above[1])]),
                Arrow([dials[-1].left, (5.72, dials[-1].y), (5.72, low), semantic.right]),
                Arrow([semantic.left, start.right]),
            ],
            [Text(6.15, low + 0.71, "dial: how many states of a chunk are kept", bold=True)],
        )

    def _dials(self, low: float) -> list[Box]:
        space = 1.28 / len(self.dial)
        boxes = []
        for number, setting in enumerate(self.dial):
            size = "" if setting.bytes is None else f", {bytes_told(setting.bytes)}"
            y = low + 0.52 - space * (number + 0.5)
            words = f"{setting.name}: {setting.meaning}{size}"
            boxes.append(Box(8.35, y, 4.4, min(0.38, space - 0.05), "", [words], fill=KEPT))
        return boxes

    def _average(self) -> list[str]:
        return ["moving average", *([] if self.alpha is None else [f"α = {self.alpha:g}"])]


def _list(holder: Box, names: Sequence[str]) -> list[Box]:
    """Boxes within a box, the first one marked as the one that is taken."""
    y = holder.y + holder.height / 2 - 0.45
    return [
        Box(
            holder.x,
            y - _LINE * number,
            holder.width - 0.2,
            _LINE - 0.04,
            "",
            [name],
            fill=PLAIN if number else KEPT,
            strong=not number,
        )
        for number, name in enumerate(names)
    ]


def _size(size: Number | None) -> list[str]:
    return [] if size is None else [bytes_told(size)]
