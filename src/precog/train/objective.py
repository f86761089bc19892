"""The training loss: read a chunk once, branch its questions from the state, score answers as they are decoded.

A batch holds B chunks and R question rows, each with the chunk it belongs to. The chunk is read into a state, the
state is handed to its questions (gradients add up over them), and the answer tokens are scored twice: over the whole
vocabulary, and under the mask of grounded decoding, where the next token must continue a span of the chunk.
"""

import dataclasses
from collections.abc import Callable

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional

from precog.backbones.tenns.model import Pass, TennsModel
from precog.engine.span_mask import span_mask
from precog.train.cross_entropy import IGNORED
from precog.train.data.tokens import EOS_ID
from precog.train.questions import QuestionBatch, answer_tokens, varied_states

QUESTION_STRIDE = 4
"""Every fourth row is enough to learn what questions look like."""
LOSSES = ("context", "recite", "question", "answer", "grounded")


@dataclasses.dataclass(frozen=True)
class LossWeights:
    """Weights of the parts of the loss; each part is a mean over its own tokens.

    Attributes:
        context: next tokens of the chunks.
        recite: next tokens of the chunks that are read twice, the second time: what the state holds of every word.
        question: next tokens of the questions.
        answer: answer tokens over the whole vocabulary.
        grounded: answer tokens under the mask of grounded decoding.
        context_share: share of the chunks whose own tokens are scored; the longest ones of those sorted by length.
    """

    context: float = 1.0
    recite: float = 0.0
    question: float = 0.1
    answer: float = 0.5
    grounded: float = 1.0
    context_share: float = 1.0

    def vector(self, device: torch.device) -> Tensor:
        """The weights of `LOSSES`, FP32."""
        return torch.tensor([getattr(self, name) for name in LOSSES], device=device)


def context_targets(context: Int64[Tensor, "B T"], length: Int64[Tensor, " B"]) -> Int64[Tensor, "B T"]:
    """Next-token targets of chunks, padding ignored."""
    shifted = functional.pad(context[:, 1:], (0, 1), value=IGNORED)
    position = torch.arange(shifted.shape[1], device=shifted.device)[None]
    return shifted.masked_fill(position >= length[:, None] - 1, IGNORED)


@dataclasses.dataclass(frozen=True)
class Scores:
    """Sums and counts, so that several batches and devices add up.

    Attributes:
        context, recite, question, answer, grounded: (sum of cross-entropies, number of tokens).
        exact: (rows whose every answer token is the argmax under the mask, answerable rows).
        row_losses: [R] grounded cross-entropy summed over each row's answer; infinite where it cannot be decoded.
        row_misses: [R] answer tokens that are not the argmax under the mask.
    """

    context: tuple[Tensor, Tensor]
    recite: tuple[Tensor, Tensor]
    question: tuple[Tensor, Tensor]
    answer: tuple[Tensor, Tensor]
    grounded: tuple[Tensor, Tensor]
    exact: tuple[Tensor, Tensor]
    row_losses: Tensor
    row_misses: Tensor

    def loss(self, weights: LossWeights) -> Tensor:
        """The weighted sum of the means."""
        counts = torch.stack([getattr(self, name)[1] for name in LOSSES])
        return self.combined(weights.vector(counts.device) / counts.clamp(min=1))

    def combined(self, factors: Tensor) -> Tensor:
        """The sums of cross-entropies, each times its factor [parts], added up."""
        return (torch.stack([getattr(self, name)[0] for name in LOSSES]) * factors).sum()


def target_counts(batch: QuestionBatch, weights: LossWeights) -> Tensor:
    """Targets of every part of the loss [parts], FP32, known before anything is scored.

    Grounded ones count like answers: each is a span of its chunk.
    """
    first = _first_scored(batch, weights)
    answers = batch.row_length - batch.prompt_length
    answers = torch.where(batch.answerable, answers, 1).sum()
    zero = answers.new_zeros(())
    recited = zero if batch.twice is None else (batch.context_length[batch.twice] - 1).sum()
    asked = (batch.prompt_length[::QUESTION_STRIDE] - 1).sum()
    return torch.stack(((batch.context_length[first:] - 1).sum(), recited, asked, answers, answers)).float()


def _first_scored(batch: QuestionBatch, weights: LossWeights) -> int:
    return len(batch.context) - max(1, round(weights.context_share * len(batch.context)))


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
    read = _read(model, batch.context, batch.context_length, None, dtype)
    zero = read.hidden.new_zeros((), dtype=torch.float32)
    context = recite = question = (zero, zero)
    if weights.context:
        first = _first_scored(batch, weights)
        targets = context_targets(batch.context[first:], batch.context_length[first:])
        logits = model.logits(read.hidden[first:].flatten(0, 1))
        context = (cross_entropy(logits, targets.flatten()), (targets >= 0).sum())
    states, time = read.state, read.decay_time
    if batch.twice is not None:
        tokens, lengths = batch.context[batch.twice], batch.context_length[batch.twice]
        again = model(tokens, state=states.index_select(1, batch.twice), lengths=lengths, dtype=dtype)
        states = states.index_copy(1, batch.twice, again.state)
        time = time.index_add(1, batch.twice, again.decay_time)
        if weights.recite:
            targets = context_targets(tokens, lengths)
            logits = model.logits(again.hidden.flatten(0, 1))
            recite = (cross_entropy(logits, targets.flatten()), (targets >= 0).sum())
    state = varied_states(model, batch, states, time) if use_state else torch.zeros_like(states[:, batch.owner])
    asked = _read(model, batch.questions, batch.row_length, state, dtype)

    rows, width = batch.questions.shape
    position = torch.arange(width, device=batch.questions.device)[None]
    if weights.question:
        targets = functional.pad(batch.questions[:, 1:], (0, 1), value=IGNORED)
        targets = targets.masked_fill(position >= batch.prompt_length[:, None] - 1, IGNORED)
        hidden, targets = asked.hidden[::QUESTION_STRIDE].flatten(0, 1), targets[::QUESTION_STRIDE].flatten()
        question = (cross_entropy(model.logits(hidden), targets), (targets >= 0).sum())

    answers = batch.answers
    if answers is None:
        answers = answer_tokens(
            batch.questions, batch.prompt_length, batch.row_length, batch.answerable, counted=batch.counted
        )
    places_before = batch.prompt_length[answers.rows] + answers.offsets - 1
    logits = model.logits(asked.hidden[answers.rows, places_before])
    targets = answers.targets.where(answers.present, IGNORED)
    answer = (cross_entropy(logits, targets), answers.present.sum())

    offset = torch.arange(answers.longest, device=position.device)[None]
    tokens = batch.questions.gather(1, (batch.prompt_length[:, None] + offset).clamp(max=width - 1))
    source = batch.context[batch.owner]
    places = span_mask(source, batch.context_length[batch.owner], tokens)[answers.rows, answers.offsets]
    allowed = torch.zeros_like(logits, dtype=torch.bool)
    # a disallowed position points at the end token, which is allowed everywhere
    allowed.scatter_(1, torch.where(places, source[answers.rows], EOS_ID), True)
    allowed[:, EOS_ID] = True
    masked = logits.float().masked_fill(~allowed, -torch.inf)
    losses = functional.cross_entropy(masked, answers.targets, reduction="none")
    reachable = (
        torch.isfinite(losses) & answers.present
    )  # what is no span of the chunk can be neither decoded nor learned
    grounded = (losses.where(reachable, zero).sum(), reachable.sum())
    counted = losses.detach().where(answers.present, zero)
    row_losses = losses.new_zeros(rows).index_add(0, answers.rows, counted)
    missed = (masked.argmax(-1) != answers.targets) & answers.present
    misses = losses.new_zeros(rows).index_add(0, answers.rows, missed.to(losses.dtype))
    asked_for = batch.answerable if batch.counted is None else batch.answerable & batch.counted
    exact = ((misses == 0) & asked_for).sum(), asked_for.sum()
    return Scores(context, recite, question, answer, grounded, exact, row_losses, misses)


def _read(
    model: TennsModel,
    tokens: Int64[Tensor, "B T"],
    lengths: Int64[Tensor, " B"],
    state: Tensor | None,
    dtype: torch.dtype | None,
) -> Pass:
    """One pass over padded rows; from a state of zeros when None, so that every pass runs the same compiled code."""
    if state is None:
        config = model.config
        state = torch.zeros(config.layers, len(tokens), config.state_reals, device=tokens.device)
        state = state.double() if dtype is None and model.embedding.weight.dtype == torch.float64 else state
    return model(tokens, state=state, lengths=lengths, dtype=dtype)  # type: ignore[no-any-return]  # nn.Module
