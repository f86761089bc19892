"""The training loss: read a chunk once, branch its questions from the state, score answers as they are decoded.

A batch holds B chunks and R question rows, each with the chunk it belongs to. The chunk is read into a state, the
state is handed to its questions (gradients add up over them), and the answer tokens are scored twice: over the whole
vocabulary, and under the mask of grounded decoding, where the next token must continue a span of the chunk.
"""

import dataclasses
from collections.abc import Callable

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn import functional

from precog.backbones.tenns.model import TennsModel

EOS_ID = 2  # ends an answer; as the first token it says that the chunk does not answer
IGNORED = -100


@dataclasses.dataclass(frozen=True)
class QuestionBatch:
    """One step's data on the device.

    Attributes:
        context: [B, T] chunk tokens, opened by the boundary token, right-padded.
        context_length: [B].
        questions: [R, U] boundary token, prompt, answer, end; right-padded.
        prompt_length, row_length: [R] tokens before the answer, tokens in all.
        owner: [R] the chunk whose state the row starts from.
        answerable: [R] False where the owner's chunk is not the one that was asked about.
    """

    context: Int64[Tensor, "B T"]
    context_length: Int64[Tensor, " B"]
    questions: Int64[Tensor, "R U"]
    prompt_length: Int64[Tensor, " R"]
    row_length: Int64[Tensor, " R"]
    owner: Int64[Tensor, " R"]
    answerable: Bool[Tensor, " R"]


@dataclasses.dataclass(frozen=True)
class LossWeights:
    """Weights of the four parts of the loss; each part is a mean over its own tokens."""

    context: float = 1.0
    question: float = 0.1
    answer: float = 0.5
    grounded: float = 1.0


def span_mask(
    context: Int64[Tensor, "R T"], context_length: Int64[Tensor, " R"], answer: Int64[Tensor, "R A"]
) -> Bool[Tensor, "R A T"]:
    """Where each answer token may be taken from: position p is allowed for token j when the j answer tokens before it
    stand right before p in the chunk. Token 0 may be taken from anywhere after the boundary token.
    """
    length = context.shape[1]
    position = torch.arange(length, device=context.device)
    allowed = (position[None] >= 1) & (position[None] < context_length[:, None])
    inside = allowed
    masks = [allowed]
    for j in range(answer.shape[1] - 1):
        matched = allowed & (context == answer[:, j, None])
        allowed = functional.pad(matched[:, :-1], (1, 0)) & inside
        masks.append(allowed)
    return torch.stack(masks, dim=1)


def context_targets(batch: QuestionBatch) -> Int64[Tensor, "B T"]:
    """Next-token targets of the chunk, padding ignored."""
    shifted = functional.pad(batch.context[:, 1:], (0, 1), value=IGNORED)
    position = torch.arange(shifted.shape[1], device=shifted.device)[None]
    return shifted.masked_fill(position >= batch.context_length[:, None] - 1, IGNORED)


@dataclasses.dataclass(frozen=True)
class Scores:
    """Sums and counts, so that several batches and devices add up.

    Attributes:
        context, question, answer, grounded: (sum of cross-entropies, number of tokens).
        exact: (rows whose every answer token is the argmax under the mask, answerable rows).
    """

    context: tuple[Tensor, Tensor]
    question: tuple[Tensor, Tensor]
    answer: tuple[Tensor, Tensor]
    grounded: tuple[Tensor, Tensor]
    exact: tuple[Tensor, Tensor]

    def loss(self, weights: LossWeights) -> Tensor:
        """The weighted sum of the four means."""
        parts = []
        for name in ("context", "question", "answer", "grounded"):
            total, count = getattr(self, name)
            parts.append(getattr(weights, name) * total / count.clamp(min=1))
        return torch.stack(parts).sum()


def summed_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum of cross-entropies in FP32."""
    return functional.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="sum")


def score(
    model: TennsModel,
    batch: QuestionBatch,
    weights: LossWeights,
    dtype: torch.dtype | None = None,
    cross_entropy: Callable[[Tensor, Tensor], Tensor] = summed_cross_entropy,
    use_state: bool = True,
) -> Scores:
    """Every part of the loss of a batch.

    Args:
        model: the network.
        batch: chunks and their questions.
        weights: parts with weight 0 are not computed.
        dtype: compute dtype of the blocks.
        cross_entropy: summed cross-entropy of (logits, targets); a compiled one is faster.
        use_state: False starts questions from a zero state: what the mask alone gives away.
    """
    read = model(batch.context, lengths=batch.context_length, dtype=dtype)
    zero = read.hidden.new_zeros((), dtype=torch.float32)
    context = question = (zero, zero)
    if weights.context:
        targets = context_targets(batch)
        context = (cross_entropy(model.logits(read.hidden.flatten(0, 1)), targets.flatten()), (targets >= 0).sum())
    state = read.state.index_select(1, batch.owner)
    if not use_state:
        state = torch.zeros_like(state)
    asked = model(batch.questions, state=state, lengths=batch.row_length, dtype=dtype)

    rows, width = batch.questions.shape
    position = torch.arange(width, device=batch.questions.device)[None]
    if weights.question:
        targets = functional.pad(batch.questions[:, 1:], (0, 1), value=IGNORED)
        targets = targets.masked_fill(position >= batch.prompt_length[:, None] - 1, IGNORED)
        picked = torch.arange(0, rows, 4, device=targets.device)  # a quarter of the rows is enough for this part
        question = (
            cross_entropy(model.logits(asked.hidden[picked].flatten(0, 1)), targets[picked].flatten()),
            (targets[picked] >= 0).sum(),
        )

    longest = int((batch.row_length - batch.prompt_length).max())
    offset = torch.arange(longest, device=position.device)[None]
    index = (batch.prompt_length[:, None] + offset).clamp(max=width - 1)
    target = batch.questions.gather(1, index)
    present = offset < (batch.row_length - batch.prompt_length)[:, None]
    # an unanswerable row has one target: the end, at once
    target = torch.where(batch.answerable[:, None], target, EOS_ID)
    present = present & (batch.answerable[:, None] | (offset == 0))
    hidden = asked.hidden.gather(1, (index - 1)[..., None].expand(-1, -1, asked.hidden.shape[-1]))
    kept = present.flatten().nonzero()[:, 0]
    logits = model.logits(hidden.flatten(0, 1)[kept])
    targets = target.flatten()[kept]
    answer = (cross_entropy(logits, targets), torch.tensor(len(kept), device=logits.device))

    places = span_mask(batch.context[batch.owner], batch.context_length[batch.owner], target).flatten(0, 1)[kept]
    sources = batch.context[batch.owner][:, None].expand(-1, longest, -1).flatten(0, 1)[kept]
    allowed = torch.zeros_like(logits, dtype=torch.bool)
    # a disallowed position points at the end token, which is allowed everywhere
    allowed.scatter_(1, torch.where(places, sources, EOS_ID), True)
    allowed[:, EOS_ID] = True
    masked = logits.float().masked_fill(~allowed, -torch.inf)
    losses = functional.cross_entropy(masked, targets, reduction="none")
    reachable = torch.isfinite(losses)  # an answer that is no span of the chunk cannot be decoded, nor learned
    grounded = (losses.where(reachable, zero).sum(), reachable.sum())
    hit = torch.ones(rows * longest, dtype=torch.bool, device=logits.device)
    hit[kept] = masked.argmax(-1) == targets
    exact = (hit.view(rows, longest).all(1) & batch.answerable).sum(), batch.answerable.sum()
    return Scores(context, question, answer, grounded, exact)
