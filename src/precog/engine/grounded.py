"""Grounded decoding: the answer is a span of what was retrieved, found by the model's own scores.

The next token must continue a span of a source, or end it; the scores are a log-softmax over that set alone, which is
also the loss the model was trained with. A beam over branches of one state looks for the best span. The model reads
the question and the branches' tokens, never the source: the mask comes from a suffix array and costs O(L) bytes.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.engine.mask import Mask, Place, Source
from precog.errors import InputError, UsageError
from precog.interrupt import check_asked
from precog.state import State, StateBatch


@dataclass(frozen=True)
class GroundedSettings:
    """How spans are searched and ranked.

    Attributes:
        beam_width: branches kept; 1 is greedy.
        max_span_tokens: no answer is longer.
        length_normalise: rank by log-probability per token, the end counted, instead of by the sum.
        contrast: weight w in log p(span | state, question) − w · log p(span | question): what the question alone
            suggests counts less.
        min_confidence: below it an answer counts as not found; for whoever shows answers, the search ignores it.
        whole_words: a span neither begins nor ends inside a word or a number.
    """

    beam_width: int = 4
    max_span_tokens: int = 24
    length_normalise: bool = False
    contrast: float = 0.0
    min_confidence: float = 0.0
    whole_words: bool = True

    def __post_init__(self) -> None:
        if self.beam_width < 1 or self.max_span_tokens < 1:
            given = f"beam {self.beam_width}, {self.max_span_tokens} tokens"
            raise UsageError("grounded decoding: sizes are out of range", given=given, expected="at least 1")
        if not 0 <= self.contrast <= 10 or not 0 <= self.min_confidence <= 1:
            given = f"contrast {self.contrast}, min_confidence {self.min_confidence}"
            raise UsageError("grounded decoding: weights are out of range", given=given, expected="0 to 10, 0 to 1")

    @classmethod
    def from_card(cls, decoding: Mapping[str, object]) -> "GroundedSettings":
        """The settings a checkpoint was published with; defaults for what it does not say.

        Raises:
            UsageError: a key is unknown or a value has the wrong type.
        """
        kinds = {entry.name: entry.type for entry in fields(cls)}
        values: dict[str, object] = {}
        for key, value in decoding.items():
            values[key] = value
            if kinds.get(key) is float and type(value) is int and abs(value) <= sys.float_info.max:
                values[key] = float(value)
            if key not in kinds or type(values[key]) is not kinds[key]:
                raise UsageError("precog.json: decoding is wrong", given=f"{key}: {value!r}", expected=", ".join(kinds))
        return cls(**values)  # type: ignore[arg-type]  # checked above


@dataclass(frozen=True)
class Span:
    """A candidate answer.

    Attributes:
        token_ids: of the answer, the end not counted.
        member: which source it was found in first.
        start: its first token's position in that source.
        occurrences: every (member, start) where these tokens stand.
        log_probability: of the tokens and the end, under the mask, nats.
        score: what spans are ranked by.
    """

    token_ids: tuple[int, ...]
    member: int
    start: int
    occurrences: tuple[tuple[int, int], ...]
    log_probability: float
    score: float

    @property
    def length(self) -> int:
        """Tokens of the answer."""
        return len(self.token_ids)


@dataclass(frozen=True)
class Scores:
    """What one source's members think of the answer, by themselves.

    Attributes:
        log_probability: of the answer and its end, under the mask of that source.
        no_answer_log_probability: log p(end) before any token.
        free_entropy: of the first token over the whole vocabulary, nats.
        source: index of the source.
    """

    log_probability: float
    no_answer_log_probability: float
    free_entropy: float
    source: int


@dataclass(frozen=True)
class Grounded:
    """What a search found.

    Attributes:
        spans: finished candidates, best first; at least one.
        no_answer_log_probability: log p(end) before any token: the model's own "it is not in here".
        free_entropy: of the first token over the whole vocabulary, nats: how open it is to the model what to say.
        tokens_processed: tokens the model read, question and all branches.
        mask_bytes: bytes of token ids and suffix array the mask touched.
        mask_sec: seconds the mask took.
        first_token_sec: seconds from the call until the first token's candidates were ranked.
        total_sec: seconds of the whole search.
        of_source: of a mixture, the scores of those members alone that the best span's own source has; None elsewhere.
    """

    spans: tuple[Span, ...]
    no_answer_log_probability: float
    free_entropy: float
    tokens_processed: int
    mask_bytes: int
    mask_sec: float
    first_token_sec: float
    total_sec: float
    of_source: Scores | None = None

    @property
    def best(self) -> Span:
        """The answer."""
        return self.spans[0]

    @property
    def scores(self) -> Scores:
        """What tells how likely the answer's source is to hold it: other sources, which need not, have no say in it."""
        if self.of_source is not None:
            return self.of_source
        return Scores(self.best.log_probability, self.no_answer_log_probability, self.free_entropy, self.best.member)

    @property
    def confidence(self) -> float:
        """P(answer) / (P(answer) + P(no answer)), between 0 and 1: of the passage, no probability of being right."""
        margin = self.scores.log_probability - self.scores.no_answer_log_probability
        return float(1 / (1 + np.exp(np.clip(-margin, -700, 700))))


@dataclass(frozen=True)
class _Branch:
    tokens: tuple[int, ...]
    places: tuple[Place, ...]  # where the tokens stand
    log_probability: float
    empty_log_probability: float


@dataclass(frozen=True)
class _Choice:
    score: float
    branch: int
    token: int
    log_probability: float
    empty_log_probability: float


def ground(
    backbone: Backbone,
    state: State | None,
    question_ids: Sequence[int],
    sources: Sequence[Source],
    settings: GroundedSettings | None = None,
) -> Grounded:
    """Answer a question from a state with spans of the sources.

    Args:
        backbone: the model.
        state: what it has read; nothing when None (then only the mask speaks). It is not changed.
        question_ids: the question's segment, boundary first.
        sources: where spans may come from; with several, the mask is their union.
        settings: of the search.

    Raises:
        InputError: no source or no question.
        BoundaryError, ForeignStateError: as `Backbone.read`.
    """
    started = time.perf_counter()
    start = backbone.open([backbone.empty_state() if state is None else state])
    batch, hidden = backbone.read(start, torch.tensor([list(question_ids)]))
    return search(backbone, batch, hidden, question_ids, sources, settings, started, len(question_ids))


def search(
    backbone: Backbone,
    batch: StateBatch,
    hidden: Float[Tensor, "1 d"],
    question_ids: Sequence[int],
    sources: Sequence[Source],
    settings: GroundedSettings | None,
    started: float,
    tokens_processed: int,
) -> Grounded:
    """The search itself, from a batch of one row that has read the question; see `ground`.

    Args:
        backbone: the model.
        batch: one live row.
        hidden: its last hidden vector.
        question_ids: read once more from nothing where the settings ask for a contrast.
        sources: where spans may come from.
        settings: of the search.
        started: ``time.perf_counter()`` at the beginning of the answer.
        tokens_processed: tokens read so far.

    Raises:
        InputError: there is no source.
        CancelledError: whoever asked has gone.
    """
    settings = settings or GroundedSettings()
    if not sources:
        raise InputError("grounded decoding needs a source", hint="decode freely (--free) without one")
    if settings.contrast:
        empty, bare = backbone.read(backbone.open([backbone.empty_state()]), torch.tensor([list(question_ids)]))
        batch, hidden = batch.joined(empty), torch.cat((hidden, bare))
        tokens_processed += len(question_ids)
    finished: list[Span] = []
    mask = Mask(sources, backbone.tokenizer, whole_words=settings.whole_words)
    branches = [_Branch((), mask.beginnings(), 0.0, 0.0)]
    free_entropy = entropy(torch.log_softmax(backbone.logits(hidden[0]).double(), 0))
    no_answer, first_token_sec = 0.0, 0.0
    for depth in range(settings.max_span_tokens + 1):
        check_asked()
        final = depth == settings.max_span_tokens
        allowed = [mask.expand(branch.tokens, branch.places, may_end=final) for branch in branches]
        choices = _choices(backbone, hidden, branches, allowed, settings)
        if depth == 0:
            no_answer = next(c.log_probability for c in choices if c.token == mask.end)
            choices = [choice for choice in choices if choice.token != mask.end]
            first_token_sec = time.perf_counter() - started
        if final:
            choices = [choice for choice in choices if choice.token == mask.end]
        choices = sorted(choices, key=lambda c: (-c.score, c.branch, c.token))[: settings.beam_width]
        finished += [_span(mask, branches[c.branch], c) for c in choices if c.token == mask.end]
        going = [c for c in choices if c.token != mask.end and not _beaten(c, finished, settings)]
        if not going or (not _only_falls(settings) and len(finished) >= settings.beam_width):
            break
        parents = [choice.branch for choice in going]
        rows = parents + ([len(branches) + parent for parent in parents] if settings.contrast else [])
        tokens = [choice.token for choice in going] * (2 if settings.contrast else 1)
        batch, hidden = backbone.step(batch.select(rows), tokens)
        tokens_processed += len(rows)
        branches = [
            _Branch(
                (*branches[c.branch].tokens, c.token),
                allowed[c.branch][1][c.token],
                c.log_probability,
                c.empty_log_probability,
            )
            for c in going
        ]
    return Grounded(
        spans=tuple(sorted(finished, key=lambda span: -span.score)),
        no_answer_log_probability=no_answer,
        free_entropy=free_entropy,
        tokens_processed=tokens_processed,
        mask_bytes=mask.num_bytes,
        mask_sec=mask.seconds,
        first_token_sec=first_token_sec,
        total_sec=time.perf_counter() - started,
    )


def entropy(log_probabilities: Float64[Tensor, " V"]) -> float:
    """Of a distribution, nats."""
    return float(torch.special.entr(log_probabilities.exp()).sum())


def _span(mask: Mask, branch: _Branch, choice: _Choice) -> Span:
    """A finished branch as a candidate answer."""
    occurrences = mask.occurrences(branch.tokens, branch.places)
    return Span(branch.tokens, *occurrences[0], tuple(occurrences), choice.log_probability, choice.score)


def _choices(
    backbone: Backbone,
    hidden: Tensor,
    branches: Sequence[_Branch],
    allowed: Sequence[tuple[NDArray[np.int64], object]],
    settings: GroundedSettings,
) -> list[_Choice]:
    """Every allowed next token of every branch with its score so far."""
    union = np.unique(np.concatenate([ids for ids, _ in allowed]))
    scores = backbone.scores(hidden, torch.from_numpy(union)).double()
    choices = []
    for row, branch in enumerate(branches):
        ids = allowed[row][0]
        columns = torch.from_numpy(np.searchsorted(union, ids))
        gained = torch.log_softmax(scores[row, columns], 0).tolist()
        bare = [0.0] * len(gained)
        if settings.contrast:
            bare = torch.log_softmax(scores[len(branches) + row, columns], 0).tolist()
        for token, more, less in zip(ids.tolist(), gained, bare, strict=True):
            total, empty = branch.log_probability + more, branch.empty_log_probability + less
            score = total - settings.contrast * empty
            if settings.length_normalise:
                score /= len(branch.tokens) + 1
            choices.append(_Choice(score, row, token, total, empty))
    return choices


def _beaten(choice: _Choice, finished: Sequence[Span], settings: GroundedSettings) -> bool:
    """Whether no continuation of an unfinished branch can still win, because its score only falls."""
    return _only_falls(settings) and bool(finished) and choice.score <= max(span.score for span in finished)


def _only_falls(settings: GroundedSettings) -> bool:
    return not settings.contrast and not settings.length_normalise
