"""Studying: a state that was read is trained alone, a bounded number of steps, on questions made from its own text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.state import State


@dataclass(frozen=True)
class StudySettings:
    """How a state is refined.

    Attributes:
        steps: most gradient steps.
        seconds: budget per chunk; None for none.
        seed: of everything that is drawn.
    """

    steps: int = 60
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
        loss_after: the same after the last step.
        seconds: it took.
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
        UsageError: it has none.
    """


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
        texts: that were read.
        titles: of what they stand in; "" for none.
        token_ids: of the texts.
        states: after reading them.
        settings: how.
        should_stop: asked between steps.
    """
    return [Studied(state, False, 0, math.nan, math.nan, 0.0, "no questions") for state in states]
