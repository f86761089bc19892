"""A question batch's forward and backward pass, recorded once as a CUDA graph and replayed.

A model of some tens of millions of parameters keeps a GPU busy for less time than its thousand kernels take to be
launched one by one. Replayed, they are launched at once. A recording holds for one set of shapes; batches of other
shapes run as they would without it.
"""

import dataclasses

import torch
from torch import Tensor

from precog.backbones.tenns.model import TennsModel
from precog.train.microbatch import Scoring
from precog.train.objective import LOSSES, LossWeights
from precog.train.questions import AnswerTokens, QuestionBatch

WARM_UP = 3
"""Batches of a kind that run plainly first, so that everything is compiled and tuned before it is recorded."""
KINDS = 2
"""Sets of shapes that are recorded; each holds memory of its own."""


@dataclasses.dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: QuestionBatch
    factors: Tensor
    loss: Tensor
    found: Tensor
    gradients: list[Tensor | None]


def tensors_of(batch: QuestionBatch) -> list[Tensor]:
    """Every tensor of a batch, in a fixed order."""
    found = []
    parts: tuple[QuestionBatch | AnswerTokens, ...] = (batch,) if batch.answers is None else (batch, batch.answers)
    for part in parts:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, Tensor):
                found.append(value)
    return found


def kind_of(batch: QuestionBatch, weights: LossWeights) -> tuple[object, ...]:
    """What must be equal for one recording to serve two batches."""
    longest = None if batch.answers is None else batch.answers.longest
    shapes = tuple(tuple(tensor.shape) for tensor in tensors_of(batch))
    computed = tuple(bool(getattr(weights, name)) for name in LOSSES)
    return shapes, longest, computed, weights.context_share


def _copy(batch: QuestionBatch) -> QuestionBatch:
    def cloned(part: QuestionBatch | AnswerTokens) -> dict[str, Tensor]:
        values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return {name: value.clone() for name, value in values.items() if isinstance(value, Tensor)}

    answers = None
    if batch.answers is not None:
        answers = dataclasses.replace(batch.answers, **cloned(batch.answers))  # type: ignore[arg-type]  # tensors only
    return dataclasses.replace(batch, answers=answers, **cloned(batch))


class Recorder:
    """Runs question batches, from the fourth of a kind on by replaying it.

    Gradients are those of the batch alone: they replace what the parameters held.
    """

    def __init__(self, model: TennsModel, scoring: Scoring) -> None:
        self._model, self._scoring = model, scoring
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._seen: dict[tuple[object, ...], int] = {}
        self._recordings: dict[tuple[object, ...], _Recording] = {}

    def run(self, batch: QuestionBatch, weights: LossWeights, factors: Tensor) -> tuple[Tensor, Tensor]:
        """Loss, and sums and counts [2, names], of a batch; its gradients stand in the parameters afterwards."""
        kind = kind_of(batch, weights)
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if kind not in self._recordings and self._seen[kind] > WARM_UP and len(self._recordings) < KINDS:
            self._recordings[kind] = self._record(batch, weights, factors)
        recording = self._recordings.get(kind)
        if recording is None:
            for parameter in self._parameters:
                parameter.grad = None
            loss, found = self._scoring.ask(self._model, batch, weights, factors)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves backward untyped
            return loss.detach(), found
        for parameter, gradient in zip(self._parameters, recording.gradients, strict=True):
            parameter.grad = gradient
        for kept, given in zip(tensors_of(recording.batch), tensors_of(batch), strict=True):
            kept.copy_(given)
        recording.factors.copy_(factors)
        recording.graph.replay()
        return recording.loss.clone(), recording.found.clone()

    def _record(self, batch: QuestionBatch, weights: LossWeights, factors: Tensor) -> _Recording:
        kept, kept_factors = _copy(batch), factors.clone()
        for parameter in self._parameters:
            parameter.grad = None
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loss, found = self._scoring.ask(self._model, kept, weights, kept_factors)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves backward untyped
        return _Recording(graph, kept, kept_factors, loss.detach(), found, [p.grad for p in self._parameters])
