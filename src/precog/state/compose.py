"""Several states as one: composition rules, each of which says whether its result is exact.

An average of states is not a state that any text reaches (ERRATA 10): `mean` is approximate, and so is every answer
drawn from it. The one exact case is a single member.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import StateError, UsageError
from precog.state.batch import StateBatch
from precog.state.state import State

RULES = ("mean",)


@dataclass(frozen=True)
class Composition:
    """What a rule made of some states.

    Attributes:
        state: the composed state, at a boundary.
        rule: name of the rule.
        exact: whether some text, read from nothing, leaves exactly this state.
        weights: weight of each member, in the order given; they sum to 1.
    """

    state: State
    rule: str
    exact: bool
    weights: tuple[float, ...]


def softmax_weights(scores: Sequence[float], temperature: float = 1.0) -> tuple[float, ...]:
    """Weights w = softmax(score / T) (paper Eq. 8); cosines lie close together, so T = 1 is nearly uniform (ERRATA 11).

    Raises:
        UsageError: the temperature is not positive, or a score is not finite.
    """
    if not temperature > 0 or math.isinf(temperature):
        raise UsageError("--compose-temperature is out of range", given=temperature, expected="a number above 0")
    if not scores or not all(math.isfinite(score) for score in scores):
        raise UsageError("composition needs a finite score for every state", given=list(scores))
    top = max(scores)
    raised = [math.exp((score - top) / temperature) for score in scores]
    total = math.fsum(raised)
    return tuple(value / total for value in raised)


def compose(
    states: Sequence[State], scores: Sequence[float], *, rule: str = "mean", temperature: float = 1.0
) -> Composition:
    """Combine boundary states into one; the inputs stay as they are.

    Args:
        states: members, all of one model.
        scores: retrieval score of each.
        rule: ``mean`` is H = Σ w_j h_j with w = softmax(score / T) (paper Eq. 8). τ is averaged alike; the tokens read
            are summed.
        temperature: T.

    Returns:
        The composed state. A member of weight 1 is returned as it is, and exact.

    Raises:
        ForeignStateError: members come from different models.
        StateError: there is no member, a number of scores differs, or a member is live.
        UsageError: unknown rule, bad temperature or score.
    """
    if rule not in RULES:
        raise UsageError("--compose: no such rule", given=rule, expected=", ".join(RULES))
    if not states or len(states) != len(scores):
        raise StateError("composition needs one score per state", given=f"{len(states)} states, {len(scores)} scores")
    for state in states:
        if state.is_live:
            raise StateError("a live state cannot be composed", given=state, expected="boundary states")
    weights = softmax_weights(scores, temperature)
    if len(states) == 1:
        return Composition(states[0], rule, True, weights)
    batch = StateBatch.of(states)  # refuses mixed fingerprints even where all the weight is on one member
    alone = next((j for j, weight in enumerate(weights) if weight == 1.0), None)
    if alone is not None:
        return Composition(states[alone], rule, True, weights)
    factors = batch.recurrent.new_tensor(weights)[None, :, None]
    mean = State.adopt(
        (batch.recurrent * factors).sum(1),
        tail=None,
        num_tokens=sum(batch.num_tokens),
        fingerprint=batch.fingerprint,
        decay_time=(batch.decay_time * factors).sum(1),
        encoding_dtype=batch.encoding_dtype,
    )
    return Composition(mean, rule, False, weights)
