"""What is done once with a text, and what at every question (paper, Fig. 1)."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from precog.errors import InputError
from precog.figures.axis import Axis
from precog.figures.checks import Number, check_numbers
from precog.figures.diagram import FAINT, KEPT, MODEL, Arrow, Box, Sheet, Text, draw_sheet
from precog.figures.told import bytes_told, seconds_told

STAGES = ("encode", "search", "load", "inject", "question", "first_token", "read_chunk")
_TIME, _BYTES, _TOKENS = Axis("time", "s"), Axis("size", "B"), Axis("length", "tokens")
_WIDTH, _HEIGHT = 10.9, 4.55
_STEP, _BOX = 1.52, 1.24


@dataclass(frozen=True)
class Pipeline:
    """The way from chunks to answers; each figure stands in its box, and none where it is None.

    Attributes:
        title: stands over the picture.
        chunk_tokens: of a chunk.
        state_bytes: of its state.
        key_bytes: of its key.
        text_bytes: of its text.
        question_tokens: of a question.
        num_injected: states that are composed, of those found.
        stages_sec: seconds of stages: any of `STAGES`; ``read_chunk`` is what need not be done again.
    """

    kind: ClassVar[str] = "pipeline"
    title: str
    chunk_tokens: Number | None = None
    state_bytes: Number | None = None
    key_bytes: Number | None = None
    text_bytes: Number | None = None
    question_tokens: Number | None = None
    num_injected: int | None = None
    stages_sec: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: a stage is unknown, or a number is negative or none.
        """
        unknown = next((name for name in self.stages_sec if name not in STAGES), None)
        if unknown is not None:
            raise InputError("there is no such stage", given=unknown, expected=", ".join(STAGES))
        sizes = [self.chunk_tokens, self.state_bytes, self.key_bytes, self.text_bytes, self.question_tokens]
        numbers = [*sizes, self.num_injected, *self.stages_sec.values()]
        check_numbers("a label", [number for number in numbers if number is not None], sign="zero or more")

    def axes(self) -> Mapping[str, Axis]:
        """What the labels mean."""
        sizes = {f"{name}_bytes": _BYTES for name in ("state", "key", "text")}
        return {"chunk_tokens": _TOKENS, "question_tokens": _TOKENS, **sizes, "stages_sec": _TIME}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        draw_sheet(path, self.title, self._sheet())

    def _sheet(self) -> Sheet:
        columns = [0.87 + _STEP * number for number in range(7)]
        top, middle, low = 3.42, 2.45, 0.75
        once = Box(3.24, 3.0, 6.18, 2.42, "", fill=FAINT)
        always = Box(_WIDTH / 2, 0.9, _WIDTH - 0.3, 1.44, "", fill=FAINT)
        chunk = Box(
            columns[0], (top + middle) / 2, _BOX, 1.2, "chunk", [*_tokens(self.chunk_tokens), *_size(self.text_bytes)]
        )
        model = Box(columns[1], top, _BOX, 0.76, "model", ["reads it once"], fill=MODEL)
        state = Box(columns[2], top, _BOX, 0.76, "state", _size(self.state_bytes))
        store = Box(columns[3], top, _BOX, 0.76, "store", ["on disk"], fill=KEPT)
        encoder = Box(columns[1], middle, _BOX, 0.76, "encoder", fill=MODEL)
        index = Box(
            columns[2],
            middle,
            _BOX,
            0.76,
            "index",
            ["in memory", *(f"{told} a key" for told in _size(self.key_bytes))],
            fill=KEPT,
        )
        composed = [] if self.num_injected is None else [f"top {self.num_injected:,}"]
        question = Box(columns[0], low, _BOX, 0.92, "question", _tokens(self.question_tokens))
        asked = Box(columns[1], low, _BOX, 0.92, "encoder", self._time("encode"), fill=MODEL)
        search = Box(columns[2], low, _BOX, 0.92, "search", self._time("search"))
        load = Box(columns[3], low, _BOX, 0.92, "load", [*composed, *self._time("load")])
        inject = Box(columns[4], low, _BOX, 0.92, "inject", self._time("inject"))
        reads = Box(columns[5], low, _BOX, 0.92, "model", ["reads question", *self._time("question")], fill=MODEL)
        answer = Box(columns[6], low, _BOX, 0.92, "answer", self._first_token())
        again = Box(
            columns[5],
            middle + 0.1,
            2.5,
            0.95,
            "not done again",
            ["model reads the chunk", *self._time("read_chunk")],
            dashed=True,
        )
        row = [question, asked, search, load, inject, reads, answer]
        flows = [(chunk.x + _BOX / 2, top), (chunk.x + _BOX / 2, middle)]
        return Sheet(
            _WIDTH,
            _HEIGHT - 0.25,
            [once, always, chunk, model, state, store, encoder, index, *row, again],
            [
                Arrow([flows[0], model.left]),
                Arrow([flows[1], encoder.left]),
                Arrow([model.right, state.left]),
                Arrow([state.right, store.left]),
                Arrow([encoder.right, index.left]),
                *(Arrow([before.right, after.left]) for before, after in itertools.pairwise(row)),
                Arrow([index.below, search.above]),
                Arrow([store.below, load.above]),
                Arrow([again.below, reads.above], dashed=True),
            ],
            [
                Text(0.28, 4.02, "offline, once for each chunk", bold=True),
                Text(0.28, 1.42, "at every question", bold=True),
            ],
        )

    def _time(self, stage: str) -> list[str]:
        seconds = self.stages_sec.get(stage)
        return [] if seconds is None else [seconds_told(seconds)]

    def _first_token(self) -> list[str]:
        told = self._time("first_token")
        return ["first token:", *told] if told else []


def _size(size: Number | None) -> list[str]:
    return [] if size is None else [bytes_told(size)]


def _tokens(count: Number | None) -> list[str]:
    return [] if count is None else [f"{count:,} tokens"]
