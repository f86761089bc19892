"""One micro-batch, of questions or of tokens: its loss, what it is scored on, and how to name it.

Every part of a loss is a mean over the tokens of all processes, so that the number of processes changes nothing.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from precog.backbones.tenns.model import TennsModel
from precog.train.data.batches import Batch, TokenBatch
from precog.train.lm import place_tokens, score_tokens
from precog.train.objective import LOSSES, LossWeights, score, summed_cross_entropy, target_counts
from precog.train.parallel import place_in_world, summed
from precog.train.questions import QuestionBatch, Variation, place

PARTS = (*LOSSES, "exact")
NAMES = (*PARTS, "lm")
"""What a micro-batch is scored on: sums and counts stand in this order."""

Loss = Callable[[TennsModel], tuple[Tensor, Tensor]]
"""A function of the model: the loss, and sums and counts [2, names]."""


@dataclasses.dataclass(frozen=True)
class Scoring:
    """How micro-batches are scored.

    Attributes:
        device: where.
        dtype: compute dtype of the blocks.
        variation: how question batches are varied.
        seed: of the variation.
        compiled: compile the cross-entropy of token windows.
        cross_entropy: of whole logits, for questions.
    """

    device: torch.device
    dtype: torch.dtype
    variation: Variation = dataclasses.field(default_factory=Variation)
    seed: int = 0
    compiled: bool = False
    cross_entropy: Callable[[Tensor, Tensor], Tensor] = summed_cross_entropy

    def loss(self, arrays: Batch | TokenBatch, number: int, weights: LossWeights) -> Loss:
        """Put a micro-batch on the device; what is returned scores it.

        Args:
            arrays: of this process.
            number: of the micro-batch in the run; what is drawn for it depends on it.
            weights: parts of a question batch's loss.
        """
        _, world = place_in_world()
        if (windows := as_tokens(arrays)) is not None:
            rows = place_tokens(windows, self.device)

            def read(model: TennsModel) -> tuple[Tensor, Tensor]:
                total, count = score_tokens(model, rows, self.dtype, self.compiled)
                found = torch.zeros(2, len(NAMES), device=self.device)
                found[0, -1], found[1, -1] = total.detach(), count
                return total / (summed(count.float()) / world).clamp(min=1), found

            return read
        batch = self.placed(cast(Batch, arrays), number)
        factors = self.factors(batch, weights)
        return lambda model: self.ask(model, batch, weights, factors)

    def placed(self, arrays: Batch, number: int) -> QuestionBatch:
        """A question batch on the device; ``number`` is that of the micro-batch in the run."""
        return place(arrays, self.device, self.variation, (self.seed, number, place_in_world()[0]))

    def factors(self, batch: QuestionBatch, weights: LossWeights) -> Tensor:
        """What every sum of a question batch's losses is multiplied by to become a mean over all processes."""
        _, world = place_in_world()
        return weights.vector(self.device) * world / summed(target_counts(batch, weights)).clamp(min=1)

    def ask(
        self, model: TennsModel, batch: QuestionBatch, weights: LossWeights, factors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss of a question batch, and sums and counts [2, names]."""
        scores = score(model, batch, weights, self.dtype, self.cross_entropy)
        pairs = [getattr(scores, name) for name in PARTS]
        zero = torch.zeros((), device=self.device)
        sums = torch.stack([*(total.detach().float() for total, _ in pairs), zero])
        counts = torch.stack([*(count.float() for _, count in pairs), zero])
        return scores.combined(factors), torch.stack((sums, counts))


def as_tokens(arrays: Batch | TokenBatch) -> TokenBatch | None:
    """The arrays where they are windows of tokens, None where they are chunks with questions."""
    return cast(TokenBatch, arrays) if "tokens" in arrays else None


def describe(arrays: Batch | TokenBatch, number: int, rank: int, origins: list[str] | None = None) -> dict[str, Any]:
    """A micro-batch for a person.

    Args:
        arrays: of the process.
        number: of the micro-batch.
        rank: of the process.
        origins: where each row comes from, where the source of the batches can say.
    """
    named = cast(dict[str, NDArray[np.generic]], arrays)
    windows = as_tokens(arrays) is not None
    rows = named["tokens" if windows else "context"]
    known: dict[str, Any] = {name: named[name].tolist() for name in ("source", "context_len") if name in named}
    if origins is not None:
        known["origins"] = origins
    shown = "" if not origins else f": {'; '.join(origins[:3])}{'; …' if len(origins) > 3 else ''}"
    return {
        "micro_batch": number,
        "process": rank,
        "summary": f"{number} of process {rank}, {len(rows)} {'windows' if windows else 'chunks'}{shown}",
        **known,
        "first_tokens": rows[:, :16].tolist(),
    }


def token_counts(arrays: Batch | TokenBatch) -> tuple[int, int]:
    """Tokens that are read, without padding and with it."""
    if (windows := as_tokens(arrays)) is not None:
        count = windows["tokens"].shape[0] * (windows["tokens"].shape[1] - 1)
        return count, count
    batch = cast(Batch, arrays)
    valid = int(batch["context_len"].sum()) + int(batch["row_len"].sum())
    return valid, batch["context"].size + batch["questions"].size


def means(window: list[list[float]]) -> dict[str, float]:
    """Loss, gradient norm and every part that was scored, over some steps."""
    columns = [sum(column) for column in zip(*window, strict=True)]
    means = {"loss": columns[0] / len(window), "gradient_norm": columns[1] / len(window)}
    sums, counts = columns[2 : 2 + len(NAMES)], columns[2 + len(NAMES) :]
    means.update({name: total / count for name, total, count in zip(NAMES, sums, counts, strict=True) if count})
    return {name: round(value, 6) for name, value in means.items()}
