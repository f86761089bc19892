"""Several states as one: composition rules, each of which says whether its result is exact.

No mixture of states is a state that any text reaches (ERRATA 10): every rule is approximate above the first layer, and
so is every answer drawn from it. The one exact case is a single member. Rules that need the model itself, ``mix`` and
``replay``, live in the engine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from precog.errors import ForeignStateError, StateError, UsageError
from precog.state.batch import StateBatch
from precog.state.blend import blend, check_averages
from precog.state.decay import Decay
from precog.state.foreign import titled
from precog.state.rules import concatenated, permuted, renormed
from precog.state.spec import StateSpec
from precog.state.state import State

RULES = ("mean", "concat", "permute")
RENORMS = ("none", "layer")


@dataclass(frozen=True)
class Composition:
    """What a rule made of some states.

    Attributes:
        state: the composed state, at a boundary.
        rule: name of the rule.
        exact: whether some text, read from nothing, leaves exactly this state.
        weights: of each member, in the order given: they and ``baseline`` sum to 1 where the rule weighs its members,
            and are all the same where it does not.
        baseline: weight of a semantic state beside them (ERRATA 32).
    """

    state: State
    rule: str
    exact: bool
    weights: tuple[float, ...]
    baseline: float = 0.0


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


def reading_order(scores: Sequence[float]) -> list[int]:
    """Members from the worst to the best, which is remembered best when read last; of equals the first comes last."""
    return sorted(range(len(scores)), key=lambda j: (scores[j], -j))


def compose(
    states: Sequence[State],
    scores: Sequence[float],
    spec: StateSpec,
    *,
    rule: str = "mean",
    temperature: float = 1.0,
    renorm: str = "none",
    decay: Decay | None = None,
) -> Composition:
    """Combine boundary states into one; the inputs stay as they are.

    Args:
        states: members, all of one model.
        scores: retrieval score of each.
        spec: of the model: what the coordinates of its states mean.
        rule: ``mean`` is H = Σ w_j h_j with w = softmax(score / T) (paper Eq. 8); τ is averaged alike; see
            `blend` for states that are kept in units of their own. ``concat`` is
            H ← P_j ⊙ H + h_j, the best member last, and exact for a model of one layer. ``permute`` is the mean of
            that over all orders. The τ of both is the sum. The tokens read are summed by every rule.
        temperature: T.
        renorm: ``layer`` scales each layer to the mean of its members' norms (ERRATA 15).
        decay: the model's decay rates; ``concat`` and ``permute`` need them.

    Returns:
        The composed state. A single member, or one of weight 1, is returned as it is, and exact.

    Raises:
        ForeignStateError: members come from different models.
        StateError: there is no member, a number of scores differs, a member is live, a rule needs rates, or a τ, that
            are not there, or the model's states cannot be averaged.
        UsageError: unknown rule, bad temperature or score.
    """
    if rule not in RULES:
        raise UsageError("--compose: no such rule", given=rule, expected=", ".join(RULES))
    if renorm not in RENORMS:
        raise UsageError("--compose-renorm: no such choice", given=renorm, expected=", ".join(RENORMS))
    if not states or len(states) != len(scores):
        raise StateError("composition needs one score per state", given=f"{len(states)} states, {len(scores)} scores")
    for state in states:
        if state.is_live:
            raise StateError("a live state cannot be composed", given=state, expected="boundary states")
    if renorm != "none" and (spec.scaled or spec.window[1] > spec.window[0]):
        given = "reals in units of their own, or inputs of a convolution among them"
        raise StateError("the norm of such states means nothing", given=given, hint="leave --compose-renorm out")
    weights = softmax_weights(scores, temperature)
    if len(states) == 1:
        return Composition(states[0], rule, True, weights)
    batch = StateBatch.of(states)  # refuses mixed fingerprints even where all the weight is on one member
    exact = False
    if rule == "mean":
        alone = next((j for j, weight in enumerate(weights) if weight == 1.0), None)
        if alone is not None:
            return Composition(states[alone], rule, True, weights)
        reals = blend(batch.recurrent, weights, spec)
        time = (batch.decay_time * batch.decay_time.new_tensor(weights)[None, :, None]).sum(1)
    else:
        check_averages(spec)
        if decay is None:
            hint = "compose by mean, mix or replay"
            raise StateError(f"{rule} needs to know how the model's states fade", given="no decay rates", hint=hint)
        weights = (1.0 / len(states),) * len(states)
        ordered = [states[j] for j in reading_order(scores)]
        reals = concatenated(ordered, decay) if rule == "concat" else permuted(ordered, decay)
        time = batch.decay_time.sum(1)
        exact = rule == "concat" and renorm == "none" and states[0].num_layers == 1
    if renorm == "layer":
        reals = renormed(reals, batch.recurrent, weights)
    made = State.adopt(
        reals,
        tail=None,
        num_tokens=sum(batch.num_tokens),
        fingerprint=batch.fingerprint,
        decay_time=time,
        encoding_dtype=batch.encoding_dtype,
    )
    return Composition(made, rule, exact, weights)


def with_baseline(composition: Composition, semantic_state: State, share: float, spec: StateSpec) -> Composition:
    """A composition over a semantic state as its baseline: h = (1 − λ) H + λ s (ERRATA 32, for Eq. 8).

    Args:
        composition: H, of any rule.
        semantic_state: s, at a boundary.
        share: λ. At 0 the composition is returned as it is.
        spec: of the model.

    Raises:
        ForeignStateError: the two come from different models.
        StateError: the semantic state is live, or the model's states cannot be averaged.
        UsageError: the share is not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise UsageError("the share of the semantic state is out of range", given=share, expected="0 to 1")
    made = composition.state
    if semantic_state.fingerprint != made.fingerprint:
        given, expected = titled("", semantic_state.fingerprint), titled("", made.fingerprint)
        raise ForeignStateError("states of different models cannot be mixed", given=given, expected=expected)
    if semantic_state.is_live:
        raise StateError("a live state cannot be composed", given=semantic_state, expected="a boundary state")
    if share == 0:
        return composition
    keep = 1 - share
    both = StateBatch.of([made, semantic_state])
    mixed = State.adopt(
        blend(both.recurrent, (keep, share), spec, dominant=0),
        tail=None,
        num_tokens=made.num_tokens + semantic_state.num_tokens,
        fingerprint=made.fingerprint,
        decay_time=keep * made.decay_time + share * semantic_state.decay_time,
        encoding_dtype=made.encoding_dtype,
    )
    weights = tuple(keep * weight for weight in composition.weights)
    baseline = keep * composition.baseline + share
    return replace(composition, state=mixed, exact=False, weights=weights, baseline=baseline)
