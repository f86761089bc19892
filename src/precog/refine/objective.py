"""What a studied state is trained for: the answers of its exercises, scored as they are decoded.

Half of a row's loss is the cross-entropy of its answer over the whole vocabulary, half that under the mask of grounded
decoding, where the next token must continue a span of the text or end it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from precog.backbones.protocol import LearnableBackbone
from precog.engine.span_mask import span_mask
from precog.refine.exercise import Exercise
from precog.text.tokenizer import Tokenizer

FREE = 0.5
"""Weight of the whole vocabulary; the rest is the mask's."""


@dataclass(frozen=True)
class Rows:
    """Exercises side by side, each with the text that its answer is taken from.

    Attributes:
        tokens: the exercises, right-padded.
        lengths: tokens of each.
        num_prompt: tokens of each before its answer.
        context: the texts, a boundary token in front, right-padded.
        context_lengths: tokens of each text, the boundary counted.
        end_id: the token that ends an answer.
    """

    tokens: Int64[Tensor, "R U"]
    lengths: Int64[Tensor, " R"]
    num_prompt: Int64[Tensor, " R"]
    context: Int64[Tensor, "R T"]
    context_lengths: Int64[Tensor, " R"]
    end_id: int

    @classmethod
    def of(
        cls,
        exercises: Sequence[Exercise],
        sources: Sequence[Sequence[int]],
        tokenizer: Tokenizer,
        device: torch.device | str = "cpu",
    ) -> "Rows":
        """Rows of at least one exercise.

        Args:
            exercises: one a row.
            sources: of each, the token ids of its text, without boundary.
            tokenizer: whose ids they are.
            device: where they are scored.
        """
        texts = [[tokenizer.boundary_id, *source] for source in sources]
        return cls(
            *_padded([list(exercise.token_ids) for exercise in exercises], device),
            torch.tensor([exercise.num_prompt for exercise in exercises], device=device),
            *_padded(texts, device),
            tokenizer.eos_id,
        )


def _padded(rows: Sequence[list[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    padded = torch.tensor([row + [0] * (width - len(row)) for row in rows], dtype=torch.int64)
    return padded.to(device), torch.tensor([len(row) for row in rows], device=device)


def row_losses(
    backbone: LearnableBackbone,
    recurrent: Float[Tensor, "L R S"],
    rows: Rows,
    tail: Float[Tensor, "L R J N"] | None = None,
) -> Float[Tensor, " R"]:
    """The loss of each row, nats per answer token (the end token counted), differentiable in ``recurrent``.

    Args:
        backbone: the model, its weights frozen.
        recurrent: the state that each row is asked of.
        rows: the exercises.
        tail: the convolution's last inputs, where states carry them.
    """
    hidden = backbone.hidden_from(recurrent, rows.tokens, rows.lengths, tail)
    sizes = rows.lengths - rows.num_prompt
    offset = torch.arange(int(sizes.max()), device=rows.tokens.device)
    row, at = (offset < sizes[:, None]).nonzero(as_tuple=True)  # of every answer token
    place = rows.num_prompt[row] + at
    targets = rows.tokens[row, place]
    # plain indexing here and below: its backward pass adds in a fixed order on GPUs, too
    scores = backbone.token_scores(hidden[row, place - 1])
    free = functional.cross_entropy(scores, targets, reduction="none")

    answers = rows.tokens.gather(1, (rows.num_prompt[:, None] + offset).clamp(max=rows.tokens.shape[1] - 1))
    spans = span_mask(rows.context, rows.context_lengths, answers)[row, at]
    allowed = torch.zeros_like(scores, dtype=torch.bool)
    # a place that is not allowed points at the end token, which always is
    allowed.scatter_(1, torch.where(spans, rows.context[row], rows.end_id), True)
    allowed[:, rows.end_id] = True
    grounded = functional.cross_entropy(scores.masked_fill(~allowed, -torch.inf), targets, reduction="none")

    losses = scores.new_zeros(len(sizes), len(offset))
    losses[row, at] = FREE * free + (1 - FREE) * grounded
    return losses.sum(1) / sizes
