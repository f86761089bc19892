"""An answer from several members by any rule of composition, so that whoever asks names a rule and nothing else.

`RULES` are those of `precog.state` (one state made of several, by arithmetic), ``mix`` (probabilities are mixed) and
``replay`` (one state is injected, the other texts are read).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from precog.backbones.gates import FadingBackbone, decay_of
from precog.backbones.protocol import Backbone
from precog.engine.grounded import GroundedSettings
from precog.engine.mask import Source
from precog.engine.modes import Answer, FreeSettings, OnToken, answer_inject, answer_mixture
from precog.engine.replay import replay
from precog.errors import StateError, UsageError
from precog.state import RENORMS, Composition, State, compose, softmax_weights, with_baseline
from precog.state import RULES as STATE_RULES

RULES = (*STATE_RULES, "mix", "replay")
# by answers over held-out articles (docs/LOG.md): a mean of states, or reading several texts, costs a model that was
# trained on single ones a quarter of its F1 or more, while mixing at T = 0.1 was never below the best chunk alone;
# T = 1 reproduces the paper's weights
DEFAULT_RULE, DEFAULT_TEMPERATURE = "mix", 0.1


def rules_of(backbone: Backbone) -> tuple[str, ...]:
    """The rules that a model's states allow: averaging where it means something, fading where its rates are known."""
    needs_rates = ("concat", "permute") if not isinstance(backbone, FadingBackbone) else ()
    averaged = STATE_RULES if not backbone.spec.averages else ()
    return tuple(rule for rule in RULES if rule not in needs_rates and rule not in averaged)


@dataclass(frozen=True)
class Composing:
    """How several members become one context.

    Attributes:
        rule: one of `RULES`.
        temperature: T of the softmax over scores that ``mean`` and ``mix`` weigh members by (ERRATA 11).
        renorm: ``layer`` scales every layer of a composed state to the mean norm of its members' (ERRATA 15).
        baseline_share: λ, the weight of a semantic state where there is one (ERRATA 32).
    """

    rule: str = DEFAULT_RULE
    temperature: float = DEFAULT_TEMPERATURE
    renorm: str = "none"
    baseline_share: float = 0.0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError("--compose: no such rule", given=self.rule, expected=", ".join(RULES))
        if not 0 < self.temperature < float("inf"):
            given = self.temperature
            raise UsageError("--compose-temperature is out of range", given=given, expected="a number above 0")
        if self.renorm not in RENORMS:
            raise UsageError("--compose-renorm: no such choice", given=self.renorm, expected=", ".join(RENORMS))
        if self.renorm != "none" and self.rule not in STATE_RULES:
            raise UsageError(f"{self.rule} makes no state to renorm", given=self.renorm, expected="none")
        if not 0 <= self.baseline_share <= 1:
            given = self.baseline_share
            raise UsageError("the share of the semantic state is out of range", given=given, expected="0 to 1")


@dataclass(frozen=True)
class Composed:
    """An answer, and how its context was made.

    Attributes:
        answer: with the tokens read to compose counted in.
        exact: whether the rule is exact: a state that reading some text leaves (``replay``; a single member), or
            exactly the mixture that was asked for (``mix``).
        weights: of each member; with ``baseline`` they sum to 1, except where the rule weighs nothing: then all alike.
        baseline: weight of the semantic state.
        compose_sec: seconds from the members' states to the composed one; reading texts again counts.
    """

    answer: Answer
    exact: bool
    weights: tuple[float, ...]
    baseline: float
    compose_sec: float


def answer_composed(
    backbone: Backbone,
    states: Sequence[State],
    scores: Sequence[float],
    question_ids: Sequence[int],
    *,
    how: Composing | None = None,
    chunks: Sequence[Sequence[int]] = (),
    semantic_state: State | None = None,
    sources: Sequence[Source] = (),
    settings: GroundedSettings | FreeSettings | None = None,
    on_token: OnToken | None = None,
) -> Composed:
    """Answer from the states of several chunks.

    Args:
        backbone: the model.
        states: of the members, at boundaries.
        scores: retrieval score of each.
        question_ids: the question's segment, boundary first.
        how: rule and weights.
        chunks: token ids of every member, without boundary; ``replay`` needs them.
        semantic_state: what the members are laid over, with the share that ``how`` says.
        sources: where a grounded answer may come from, one per member.
        settings: `GroundedSettings` (default) or `FreeSettings`.
        on_token: called with every token of the answer.

    Raises:
        StateError: members, scores, texts or sources do not match, or a rule lacks what it needs of the model.
        UsageError: a temperature or score is out of range.
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
    """
    how = how or Composing()
    started = time.perf_counter()
    share = how.baseline_share if semantic_state is not None else 0.0
    if how.rule == "mix":
        under = semantic_state if share else None
        return _mixed(backbone, states, scores, question_ids, how, under, sources, settings, on_token)
    tokens_read = 0
    if how.rule == "replay":
        replayed = replay(backbone, states, chunks, scores)
        tokens_read = replayed.tokens_read
        made = Composition(replayed.state, "replay", True, (1.0 / len(states),) * len(states))
    else:
        decay = decay_of(backbone)
        made = compose(
            states,
            scores,
            backbone.spec,
            rule=how.rule,
            temperature=how.temperature,
            renorm=how.renorm,
            decay=decay,
        )
    if semantic_state is not None:
        made = with_baseline(made, semantic_state, share, backbone.spec)
    compose_sec = time.perf_counter() - started
    answer = answer_inject(backbone, made.state, question_ids, sources=sources, settings=settings, on_token=on_token)
    answer = replace(answer, tokens_processed=answer.tokens_processed + tokens_read)
    return Composed(answer, made.exact, made.weights, made.baseline, compose_sec)


def _mixed(
    backbone: Backbone,
    states: Sequence[State],
    scores: Sequence[float],
    question_ids: Sequence[int],
    how: Composing,
    semantic_state: State | None,
    sources: Sequence[Source],
    settings: GroundedSettings | FreeSettings | None,
    on_token: OnToken | None,
) -> Composed:
    if not states or len(states) != len(scores):
        raise StateError("composition needs one score per state", given=f"{len(states)} states, {len(scores)} scores")
    baseline = how.baseline_share if semantic_state is not None else 0.0
    weights = tuple((1 - baseline) * weight for weight in softmax_weights(scores, how.temperature))
    # one more member, that may say what stands in any source
    under = [] if semantic_state is None else [semantic_state]
    answer = answer_mixture(
        backbone,
        [*states, *under],
        [*weights, *([baseline] if under else [])],
        question_ids,
        sources=sources,
        owners=[*range(len(states)), None] if under else None,
        settings=settings,
        on_token=on_token,
    )
    exact = semantic_state is None  # an average of states, which no text reaches, is one of those mixed otherwise
    return Composed(answer, exact, weights, baseline, 0.0)
