"""Adam on states alone: small steps within a trust region, and back to the best that was seen.

A state is start + u · RMS(layer), and u is what is trained: one learning rate then fits layers of every size. Each
chunk has its own momentum, its own region and its own best, so that it fares in a batch as it does alone (law 6).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.protocol import LearnableBackbone
from precog.refine import objective
from precog.refine.exercise import Exercise, Exercises
from precog.refine.objective import Rows

PIECE_ROWS = 32
"""Rows of one pass, so that memory stays bounded: every token of an answer takes V scores."""


@dataclass(frozen=True)
class Descent:
    """How far and how fast.

    Attributes:
        learning_rate: of u, in units of a layer's RMS.
        radius: most RMS of u in any layer.
        warm_up: steps until the learning rate is whole.
        check_every: steps between two looks at what is held out; the last step is always followed by one.
        momentum: of the gradient's mean and of its square's.
    """

    learning_rate: float = 0.0005
    radius: float = 0.01
    warm_up: int = 3
    check_every: int = 2
    momentum: tuple[float, float] = (0.9, 0.99)


@dataclass(frozen=True)
class Outcome:
    """What became of one state.

    Attributes:
        recurrent: [L, S], the best one; None where none was better than the start.
        steps: gradient steps taken.
        loss_before: of what is held out, nats per answer token.
        loss_after: the lowest that was seen after a step; NaN where none was looked at.
        reason: "" where better, else "no better", "not a number" or "no time".
    """

    recurrent: Tensor | None
    steps: int
    loss_before: float
    loss_after: float
    reason: str


@dataclass(frozen=True)
class _Piece:
    """Rows of one pass: ``chunks`` are those asked, ``owner`` [R] says which of them a row belongs to."""

    rows: Rows
    chunks: list[int]
    owner: Tensor


def descend(
    backbone: LearnableBackbone,
    start: Float[Tensor, "L B S"],
    exercises: Sequence[Exercises],
    sources: Sequence[Sequence[int]],
    steps: int,
    *,
    tail: Float[Tensor, "L B J N"] | None = None,
    deadline: float = math.inf,
    should_stop: Callable[[], bool] = lambda: False,
    descent: Descent | None = None,
) -> list[Outcome]:
    """Trains states, the weights frozen.

    Args:
        backbone: the model.
        start: states of B ≥ 1 chunks, on the model's device.
        exercises: of each.
        sources: of each, the token ids of its text.
        steps: most gradient steps.
        tail: the convolution's last inputs, where states carry them.
        deadline: of `time.perf_counter`; no step begins after it.
        should_stop: asked before every step.
        descent: how; the usual way when None.

    Raises:
        KeyboardInterrupt: it is to stop.
    """
    return _Run(backbone, start, exercises, sources, tail, descent or Descent()).run(steps, deadline, should_stop)


class _Run:
    def __init__(
        self,
        backbone: LearnableBackbone,
        start: Tensor,
        exercises: Sequence[Exercises],
        sources: Sequence[Sequence[int]],
        tail: Tensor | None,
        how: Descent,
    ) -> None:
        self._backbone = backbone
        self._how = how
        self._start, self._tail = start, tail
        self._scale = start.pow(2).mean(-1, keepdim=True).sqrt()
        self._exercises, self._sources = exercises, sources
        self._u, self._mean, self._square, self._best = (torch.zeros_like(start) for _ in range(4))
        self._going = list(range(start.shape[1]))
        self._steps = [0] * start.shape[1]

    def run(self, steps: int, deadline: float, should_stop: Callable[[], bool]) -> list[Outcome]:
        before = self._held_out()
        lowest = [math.inf] * len(before)
        checked = [False] * len(before)
        self._drop(chunk for chunk in self._going if not math.isfinite(before[chunk]))
        for step in range(1, steps + 1):
            if should_stop():
                raise KeyboardInterrupt
            if not self._going or time.perf_counter() >= deadline:
                break
            self._step(step)
            if step % self._how.check_every and step != steps:
                continue
            now = self._held_out()
            self._drop(chunk for chunk in self._going if not math.isfinite(now[chunk]))
            for chunk in self._going:
                checked[chunk] = True
                if now[chunk] < lowest[chunk]:
                    lowest[chunk] = now[chunk]
                    self._best[:, chunk] = self._u[:, chunk]
        return [self._outcome(i, before[i], lowest[i], checked[i]) for i in range(len(before))]

    def _outcome(self, chunk: int, before: float, lowest: float, checked: bool) -> Outcome:
        after = lowest if checked else math.nan
        reason = "" if lowest < before else "no better" if checked else "no time"
        if chunk not in self._going:
            after, reason = math.nan, "not a number"
        recurrent = None
        if not reason:
            recurrent = self._start[:, chunk] + self._best[:, chunk] * self._scale[:, chunk]
        return Outcome(recurrent, self._steps[chunk], before, after, reason)

    def _drop(self, chunks: Iterator[int]) -> None:
        lost = set(chunks)
        self._going = [chunk for chunk in self._going if chunk not in lost]

    def _step(self, step: int) -> None:
        """One step of every chunk still going; what is no number is found by the next look at what is held out."""
        how, gradient = self._how, torch.zeros_like(self._u)
        for piece in self._pieces([self._exercises[chunk].practice for chunk in self._going]):
            with torch.enable_grad():
                u = self._u[:, piece.chunks].requires_grad_()
                losses = self._losses(piece, u)
                share = losses.new_tensor([1 / len(self._exercises[chunk].practice) for chunk in piece.chunks])
                [part] = torch.autograd.grad((losses * share[piece.owner]).sum(), u)
            gradient[:, piece.chunks] += part
        for chunk in self._going:
            self._steps[chunk] += 1
        first, second = how.momentum
        self._mean.mul_(first).add_(gradient, alpha=1 - first)
        self._square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        direction = (self._mean / (1 - first**step)) / ((self._square / (1 - second**step)).sqrt() + 1e-12)
        self._u -= how.learning_rate * min(1.0, step / how.warm_up) * direction
        size = self._u.pow(2).mean(-1, keepdim=True).sqrt()
        self._u *= (how.radius / size).clamp(max=1.0)

    @torch.no_grad()
    def _held_out(self) -> list[float]:
        """Of each chunk that is still going, the mean loss of what is held out; NaN of the others."""
        sums, counts = [0.0] * len(self._steps), [0] * len(self._steps)
        for piece in self._pieces([self._exercises[chunk].held_out for chunk in self._going]):
            losses = self._losses(piece, self._u[:, piece.chunks]).tolist()
            for owner, loss in zip(piece.owner.tolist(), losses, strict=True):
                sums[piece.chunks[owner]] += loss
                counts[piece.chunks[owner]] += 1
        return [total / count if count else math.nan for total, count in zip(sums, counts, strict=True)]

    def _losses(self, piece: _Piece, u: Tensor) -> Tensor:
        states = self._start[:, piece.chunks] + u * self._scale[:, piece.chunks]
        tail = None if self._tail is None else self._tail[:, piece.chunks][:, piece.owner]
        return objective.row_losses(self._backbone, states[:, piece.owner], piece.rows, tail)

    def _pieces(self, exercises: Sequence[Sequence[Exercise]]) -> Iterator[_Piece]:
        """The exercises of the chunks that are still going, in passes of bounded size."""
        asked = [(chunk, one) for chunk, some in zip(self._going, exercises, strict=True) for one in some]
        asked.sort(key=lambda pair: len(pair[1].token_ids))  # rows of like lengths: little padding
        for first in range(0, len(asked), PIECE_ROWS):
            part = asked[first : first + PIECE_ROWS]
            chunks = sorted({chunk for chunk, _ in part})
            sources = [self._sources[chunk] for chunk, _ in part]
            rows = Rows.of([one for _, one in part], sources, self._backbone.tokenizer, self._start.device)
            owner = torch.tensor([chunks.index(chunk) for chunk, _ in part], device=self._start.device)
            yield _Piece(rows, chunks, owner)
