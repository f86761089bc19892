"""Studying: a state that was read is trained alone, a bounded number of steps, on questions made from its own text."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from precog.backbones.protocol import Backbone, LearnableBackbone
from precog.errors import UsageError
from precog.refine.descent import Outcome, descend
from precog.refine.exercise import exercises_of
from precog.state import State

GROUP_CHUNKS = 16
"""Chunks that are trained side by side."""


@dataclass(frozen=True)
class StudySettings:
    """How a state is refined.

    Attributes:
        steps: most gradient steps, at least 1.
        seconds: budget per chunk; None for none.
        seed: of everything that is drawn.
    """

    steps: int
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Studied:
    """What became of one state.

    Attributes:
        state: refined, or the one that was read.
        refined: whether it is another one than was read.
        steps: gradient steps taken.
        loss_before: of the held-out questions, nats per answer token; NaN without any.
        loss_after: the lowest of it that was seen after a step; NaN without any.
        seconds: it took: its share of those studied with it.
        reason: "" where refined, else why not: "no questions", "no better", "not a number" or "no time".
    """

    state: State
    refined: bool
    steps: int
    loss_before: float
    loss_after: float
    seconds: float
    reason: str


def check_can_study(backbone: Backbone) -> None:
    """Refuses a model through which no gradient reaches a state.

    Raises:
        UsageError: it is of another library, or its weights are packed.
    """
    _learnable(backbone)


def _learnable(backbone: Backbone) -> LearnableBackbone:
    if isinstance(backbone, LearnableBackbone) and backbone.gives_gradients:
        return backbone
    raise UsageError(
        "this model cannot be studied with: it gives no gradients",
        given=f"{backbone.card.name}, {backbone.encoding_dtype}",
        expected="a TENNs-LLM whose weights are not packed",
        hint="leave --study-steps out, or --dtype float32",
    )


def study(
    backbone: Backbone,
    texts: Sequence[str],
    titles: Sequence[str],
    token_ids: Sequence[Sequence[int]],
    states: Sequence[State],
    settings: StudySettings,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Studied]:
    """Refines each state on its own text; one whose held-out loss does not improve stays as it was read.

    Args:
        backbone: the model; its weights stay as they are.
        texts: that were read; nothing but them and their titles is learnt from.
        titles: of what they stand in; "" for none.
        token_ids: of the texts.
        states: after reading them.
        settings: how.
        should_stop: asked between steps.

    Raises:
        UsageError: the model gives no gradients.
        ForeignStateError: a state is another model's.
        KeyboardInterrupt: it is to stop.
    """
    learnable = _learnable(backbone)
    studied: list[Studied] = []
    for first in range(0, len(states), GROUP_CHUNKS):
        group = slice(first, first + GROUP_CHUNKS)
        studied += _together(
            learnable, texts[group], titles[group], token_ids[group], states[group], settings, should_stop
        )
    return studied


def _together(
    backbone: LearnableBackbone,
    texts: Sequence[str],
    titles: Sequence[str],
    token_ids: Sequence[Sequence[int]],
    states: Sequence[State],
    settings: StudySettings,
    should_stop: Callable[[], bool],
) -> list[Studied]:
    started = time.perf_counter()
    deadline = math.inf if settings.seconds is None else started + settings.seconds * len(states)
    made = [exercises_of(backbone, *each, settings.seed) for each in zip(texts, titles, token_ids, strict=True)]
    asked = {chunk: exercises for chunk, exercises in enumerate(made) if exercises is not None}
    outcomes: dict[int, Outcome] = {}
    if asked:
        batch = backbone.open([states[chunk] for chunk in asked])
        found = descend(
            backbone,
            batch.recurrent,
            list(asked.values()),
            [token_ids[chunk] for chunk in asked],
            settings.steps,
            tail=batch.tail,
            deadline=deadline,
            should_stop=should_stop,
        )
        outcomes = dict(zip(asked, found, strict=True))
    nothing = Outcome(None, 0, math.nan, math.nan, "no questions")
    seconds = (time.perf_counter() - started) / len(states)
    return [_studied(state, outcomes.get(chunk, nothing), seconds) for chunk, state in enumerate(states)]


def _studied(state: State, outcome: Outcome, seconds: float) -> Studied:
    if outcome.recurrent is not None:
        state = State(
            outcome.recurrent.cpu(),
            tail=state.tail,
            num_tokens=state.num_tokens,
            fingerprint=state.fingerprint,
            decay_time=state.decay_time,
            encoding_dtype=state.encoding_dtype,
        )
    return Studied(
        state,
        outcome.recurrent is not None,
        outcome.steps,
        outcome.loss_before,
        outcome.loss_after,
        seconds,
        outcome.reason,
    )
