"""The ways to an answer: from an injected state, by reading chunk and question in one pass, or without any context.

All modes share every line after the question's last token, so that they differ in nothing but where the state comes
from. `tokens_processed` counts what the model read in the answer itself.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from precog.backbones.protocol import Backbone
from precog.engine.decode import DecodedToken, decode
from precog.engine.grounded import Grounded, GroundedSettings, ground, search
from precog.engine.mask import Source
from precog.engine.mixture import decode_mixture, ground_mixture
from precog.engine.sampling import Sampling
from precog.errors import InputError
from precog.state import State

Mode = Literal["inject", "in-context", "none"]
OnToken = Callable[[int], None]


@dataclass(frozen=True)
class FreeSettings:
    """How the model speaks freely.

    Attributes:
        max_tokens: the answer is cut off after so many.
        sampling: how tokens are chosen.
        whole_sentences: stop where the first sentence ends.
    """

    max_tokens: int = 64
    sampling: Sampling = field(default_factory=Sampling)
    whole_sentences: bool = True

    @classmethod
    def of(cls, max_tokens: int | None, sampling: Sampling) -> "FreeSettings":
        """An answer of at most so many tokens; the habitual number for None."""
        return cls(sampling=sampling) if max_tokens is None else cls(max_tokens, sampling)


@dataclass(frozen=True)
class Answer:
    """An answer in tokens.

    Attributes:
        token_ids: the answer, its end not counted; the first token may open with a space.
        mode: where the state came from.
        log_probability: of the tokens; of the end too when grounded.
        grounded: what the search found; None for a free answer.
        tokens_processed: tokens the model read between question and answer, both counted.
        first_token_sec: seconds until the first token was chosen, injection included.
        total_sec: seconds until the last one.
    """

    token_ids: tuple[int, ...]
    mode: Mode
    log_probability: float
    grounded: Grounded | None
    tokens_processed: int
    first_token_sec: float
    total_sec: float


def answer_inject(
    backbone: Backbone,
    state: State,
    question_ids: Sequence[int],
    *,
    sources: Sequence[Source] = (),
    settings: GroundedSettings | FreeSettings | None = None,
    on_token: OnToken | None = None,
) -> Answer:
    """Answer from a stored state: nothing but question and answer is read.

    Args:
        backbone: the model.
        state: of a chunk, or composed of several.
        question_ids: the question's segment, boundary first.
        sources: where the answer's span must come from; not needed to decode freely.
        settings: `GroundedSettings` (default) or `FreeSettings`.
        on_token: called with every token of the answer as soon as it is known.

    Raises:
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
    """
    return _answer(backbone, state, question_ids, sources, settings, on_token, "inject")


def answer_none(
    backbone: Backbone,
    question_ids: Sequence[int],
    *,
    sources: Sequence[Source] = (),
    settings: GroundedSettings | FreeSettings | None = None,
    on_token: OnToken | None = None,
) -> Answer:
    """Answer without any context: free by default; with sources and `GroundedSettings` the mask alone speaks."""
    if settings is None and not sources:
        settings = FreeSettings()
    return _answer(backbone, None, question_ids, sources, settings, on_token, "none")


def answer_in_context(
    backbone: Backbone,
    chunks: Sequence[Sequence[int]],
    question_ids: Sequence[int],
    *,
    sources: Sequence[Source] | None = None,
    settings: GroundedSettings | FreeSettings | None = None,
    on_token: OnToken | None = None,
) -> Answer:
    """Answer by reading chunks and question in one pass, without codec or store: what injection is measured against.

    Args:
        backbone: the model; each chunk is read as it would be to make its state.
        chunks: ids of each chunk, without boundary, best last.
        question_ids: the question's segment, boundary first.
        sources: where the span must come from; the chunks when None.
        settings: `GroundedSettings` (default) or `FreeSettings`.
        on_token: called with every token of the answer.

    Raises:
        InputError: there is no chunk, or a chunk or the question is empty.
    """
    if not chunks:
        raise InputError("there is no chunk to read", hint="use answer_none to answer without context")
    context = [token for chunk in chunks for token in backbone.reading(chunk)]
    if isinstance(settings, FreeSettings):
        return _free(backbone, None, [*context, *question_ids], settings, on_token, "in-context")
    given = [Source.of(chunk) for chunk in chunks] if sources is None else sources
    started = time.perf_counter()
    together = torch.tensor([[*context, *question_ids]])
    batch, hidden = backbone.read(backbone.open([backbone.empty_state()]), together)
    found = search(backbone, batch, hidden, question_ids, given, settings, started, together.shape[1])
    return _grounded_answer(found, "in-context", on_token)


def _answer(
    backbone: Backbone,
    state: State | None,
    question_ids: Sequence[int],
    sources: Sequence[Source],
    settings: GroundedSettings | FreeSettings | None,
    on_token: OnToken | None,
    mode: Mode,
) -> Answer:
    if isinstance(settings, FreeSettings):
        return _free(backbone, state, question_ids, settings, on_token, mode)
    return _grounded_answer(ground(backbone, state, question_ids, sources, settings), mode, on_token)


def answer_mixture(
    backbone: Backbone,
    states: Sequence[State],
    weights: Sequence[float],
    question_ids: Sequence[int],
    *,
    sources: Sequence[Source] = (),
    owners: Sequence[int | None] | None = None,
    settings: GroundedSettings | FreeSettings | None = None,
    on_token: OnToken | None = None,
) -> Answer:
    """Answer by mixing what every state would say; see `precog.engine.mixture`.

    Args:
        backbone: the model.
        states: of the members; a single one is simply injected.
        weights: of the members; they sum to 1.
        question_ids: the question's segment, boundary first.
        sources: where the answer's span must come from; not needed to decode freely.
        owners: for each member the index of its source, None for all; member j owns source j when left out.
        settings: `GroundedSettings` (default) or `FreeSettings`.
        on_token: called with every token of the answer.

    Raises:
        StateError: no member, weights that are none, or a member without a source.
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
    """
    if len(states) == 1 and len(weights) == 1 and owners is None:
        return answer_inject(backbone, states[0], question_ids, sources=sources, settings=settings, on_token=on_token)
    if not isinstance(settings, FreeSettings):
        found = ground_mixture(backbone, states, weights, question_ids, sources, owners=owners, settings=settings)
        return _grounded_answer(found, "inject", on_token)
    started = time.perf_counter()
    tokens = decode_mixture(
        backbone,
        states,
        weights,
        question_ids,
        max_tokens=settings.max_tokens,
        sampling=settings.sampling,
        whole_sentences=settings.whole_sentences,
    )
    return _spoken(tokens, len(states), len(question_ids), started, on_token, "inject")


def _grounded_answer(found: Grounded, mode: Mode, on_token: OnToken | None) -> Answer:
    for token_id in found.best.token_ids if on_token else ():
        assert on_token is not None
        on_token(token_id)
    return Answer(
        token_ids=found.best.token_ids,
        mode=mode,
        log_probability=found.best.log_probability,
        grounded=found,
        tokens_processed=found.tokens_processed,
        first_token_sec=found.first_token_sec,
        total_sec=found.total_sec,
    )


def decode_freely(
    backbone: Backbone, state: State | None, question_ids: Sequence[int], settings: FreeSettings
) -> Iterator[DecodedToken]:
    """`decode` as settings say."""
    return decode(
        backbone,
        state,
        question_ids,
        max_tokens=settings.max_tokens,
        sampling=settings.sampling,
        whole_sentences=settings.whole_sentences,
    )


def _free(
    backbone: Backbone,
    state: State | None,
    question_ids: Sequence[int],
    settings: FreeSettings,
    on_token: OnToken | None,
    mode: Mode,
) -> Answer:
    started = time.perf_counter()
    return _spoken(
        decode_freely(backbone, state, question_ids, settings), 1, len(question_ids), started, on_token, mode
    )


def _spoken(
    stream: Iterator[DecodedToken],
    num_rows: int,
    num_question_tokens: int,
    started: float,
    on_token: OnToken | None,
    mode: Mode,
) -> Answer:
    """The answer of a stream of tokens, handed on as they come; every token is read once in each row."""
    tokens: list[DecodedToken] = []
    first_token_sec: float | None = None
    for token in stream:
        if first_token_sec is None:
            first_token_sec = time.perf_counter() - started
        tokens.append(token)
        if on_token is not None:
            on_token(token.token_id)
    total_sec = time.perf_counter() - started
    return Answer(
        token_ids=tuple(token.token_id for token in tokens),
        mode=mode,
        log_probability=math.fsum(token.log_probability for token in tokens),
        grounded=None,
        tokens_processed=num_rows * (num_question_tokens + len(tokens)),
        first_token_sec=total_sec if first_token_sec is None else first_token_sec,
        total_sec=total_sec,
    )
