"""Focus: a chunk's state, turned to the one part of it that a question asks about.

A state that has read many sentences answers about each of them worse than one that has read it alone, and a state of
one sentence alone misses what the rest says. The mean of both is answered from: one state, of the same size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from precog.backbones.protocol import Backbone
from precog.engine.claims import claims
from precog.errors import UsageError
from precog.state import State, StateSpec, compose

__all__ = ["Focus", "check_can_focus", "eligible", "focus", "focused"]

T = TypeVar("T")

# of a part's nearness, the claim of the state focused on it and that of its own state: what tells best which part
# holds the answer, by questions about held-out articles (docs/decisions/0011-sentences-beside-chunks.md)
_NEARNESS, _FOCUSED, _ALONE = 3.36, 0.26, 0.11
_LONGEST_QUESTION = 256  # tokens; a longer one takes longer to be read from six states than sentences are worth


@dataclass(frozen=True)
class Focus:
    """A chunk's state, turned to one of its parts.

    Attributes:
        state: the mean of both.
        number: of the part, among those that were given.
        tokens_read: to choose it.
    """

    state: State
    number: int
    tokens_read: int


def focus(
    backbone: Backbone, chunk: State, parts: Sequence[State], nearness: Sequence[float], question_ids: Sequence[int]
) -> Focus:
    """A chunk's state, focused on the part that a question is about.

    Where several parts are about as near, the question is read from the states of each, alone and in the mean, and they
    are asked whether they hold an answer (`claims`); who is nearest and surest is chosen.

    Args:
        backbone: the model.
        chunk: state of the whole chunk, at a boundary.
        parts: states of the parts that it may be about, at boundaries, the nearest first, as `eligible` leaves them; at
            least one.
        nearness: of each to the question.
        question_ids: the question's segment, boundary first.

    Raises:
        ForeignStateError: states come from different models.
        StateError: one is live, or the model's states cannot be averaged.
        BoundaryError, InputError: as `Backbone.read`.
    """
    means = [focused(chunk, part, backbone.spec) for part in parts]
    if len(parts) == 1:
        return Focus(means[0], 0, 0)
    rows = [*means, *parts]
    said = claims(backbone, rows, question_ids)
    together, alone = said[: len(parts)], said[len(parts) :]
    scores = [
        _NEARNESS * near + _FOCUSED * both + _ALONE * own
        for near, both, own in zip(nearness, together, alone, strict=True)
    ]
    number = scores.index(max(scores))
    return Focus(means[number], number, len(rows) * len(question_ids))


def eligible(backbone: Backbone, parts: Sequence[T], question_ids: Sequence[int]) -> Sequence[T]:
    """Of parts, the nearest first, those that `focus` chooses from; no state of the others is needed.

    A model whose card says nothing of confidence was not seen to know what its states hold, and there it is the nearest
    alone; so it is where the question is long.

    Args:
        backbone: the model.
        parts: that the question may be about.
        question_ids: the question's segment, boundary first.
    """
    asks = backbone.card.confidence and len(question_ids) <= _LONGEST_QUESTION
    return parts if asks else parts[:1]


def focused(chunk: State, part: State, spec: StateSpec) -> State:
    """The mean of a chunk's state and that of one of its parts, read alone, in equal weights (paper Eq. 8).

    Args:
        chunk: state of the whole chunk, at a boundary. Inputs of a convolution are its own (`blend`).
        part: state of the part, at a boundary.
        spec: of the model that made both.

    Returns:
        ½ chunk + ½ part, as large as either. Its ``num_tokens`` is the sum of both.

    Raises:
        ForeignStateError: the two come from different models.
        StateError: one is live, or the model's states cannot be averaged.
    """
    return compose([chunk, part], [0.0, 0.0], spec, rule="mean").state


def check_can_focus(backbone: Backbone) -> None:
    """Refuses a model whose states have no mean.

    Raises:
        UsageError: they hold keys and values of attention.
    """
    if not backbone.spec.averages:
        raise UsageError("this model's states cannot be averaged", given=backbone.card.name, hint="--quality twice")
