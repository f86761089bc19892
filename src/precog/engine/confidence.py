"""How likely the passage that was asked is to hold the answer, and from where on one is given.

A logistic regression over the search's own `Evidence`, fitted to answers whose truth was known; its coefficients are
data of the model that was measured (``confidence`` in ``precog.json``). A model without them says
P(answer) / (P(answer) + P(no answer)), which ranks nearly as well and is no probability.

A state that is focused on a part of its text (`precog.refine.focus`) has scores of another scale than one that was read
once. Coefficients that were fitted to such answers stand beside the others, under ``focused``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from precog.backbones.card import FOCUSED, Json, ModelCard
from precog.engine.evidence import FEATURES, Evidence
from precog.engine.grounded import GroundedSettings
from precog.engine.modes import Answer
from precog.errors import ModelError

__all__ = ["Calibration", "Confidence"]

KEYS = ("bias", "weights", "threshold", "fitted")
MOST_LOG_ODDS = 1e6
"""No coefficient is further from 0: sums of such are finite, and each decides alone long before."""


@dataclass(frozen=True)
class Calibration:
    """What makes a probability of evidence.

    Attributes:
        bias: log-odds where all evidence is 0.
        weights: log-odds that each feature adds per nat; a feature that is not named adds nothing.
        threshold: probability below which an answer counts as not found.
        fitted: what it was fitted on; not read.
    """

    bias: float
    weights: Mapping[str, float]
    threshold: float
    fitted: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Mapping[str, Json], where: str = "precog.json: confidence") -> "Calibration":
        """From the object of a card or a file.

        Raises:
            ModelError: keys are missing or unknown, a feature does not exist, or a number is none or out of range.
        """
        if set(values) != set(KEYS):
            raise ModelError(f"{where} has other keys", given=", ".join(sorted(values)), expected=", ".join(KEYS))
        weights, fitted = values["weights"], values["fitted"]
        if not isinstance(weights, dict) or not isinstance(fitted, dict):
            raise ModelError(f"{where}: weights and fitted are objects", given=f"{weights!r}, {fitted!r}")
        unknown = sorted(set(weights) - set(FEATURES))
        if unknown:
            raise ModelError(f"{where}: no such evidence", given=", ".join(unknown), expected=", ".join(FEATURES))
        numbers = {name: _number(value, f"{where}: {name}") for name, value in weights.items()}
        threshold = _number(values["threshold"], f"{where}: threshold")
        if not 0 <= threshold <= 1:
            raise ModelError(f"{where}: threshold is out of range", given=threshold, expected="0 to 1")
        return cls(_number(values["bias"], f"{where}: bias"), numbers, threshold, fitted)

    def to_json(self) -> dict[str, Json]:
        """As a card or a file holds it."""
        return {
            "bias": self.bias,
            "weights": dict(self.weights),
            "threshold": self.threshold,
            "fitted": dict(self.fitted),
        }

    def probability(self, evidence: Mapping[str, float]) -> float:
        """That the passage holds the answer, where one of this evidence (`Evidence.values`) was found in it."""
        odds = self.bias + math.fsum(weight * evidence[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, odds))))


@dataclass(frozen=True)
class Confidence:
    """How sure a model's answers are.

    Attributes:
        calibration: of the model; None where nobody fitted one.
        threshold: below it an answer counts as not found, unless somebody asks for another.
        focused: the calibration of answers from focused states; None where they are judged as the others are.
    """

    calibration: Calibration | None
    threshold: float
    focused: Calibration | None = None

    @classmethod
    def of_model(cls, card: ModelCard) -> "Confidence":
        """As its card says.

        Raises:
            ModelError: the card's coefficients are none.
            UsageError: its settings of decoding are none.
        """
        if not card.confidence:
            return cls(None, GroundedSettings.from_card(card.decoding).min_confidence)
        calibration = Calibration.from_json({key: card.confidence[key] for key in card.confidence if key != FOCUSED})
        focused = None
        if FOCUSED in card.confidence:
            values, where = card.confidence[FOCUSED], f"precog.json: confidence: {FOCUSED}"
            if not isinstance(values, dict):
                raise ModelError(f"{where} is no object", given=f"{values!r:.40}", expected=", ".join(KEYS))
            focused = Calibration.from_json(values, where)
        return cls(calibration, calibration.threshold, focused)

    def where(self, is_focused: bool) -> "Confidence":
        """How sure answers are from states that are focused, or from those that are not."""
        if not is_focused or self.focused is None:
            return self
        return Confidence(self.focused, self.focused.threshold)

    def judging(self, answer: Answer, focused: Sequence[bool]) -> "Confidence":
        """What one answer is judged by: what was fitted to states like that of the source where it stands.

        Args:
            answer: that was given.
            focused: of each of its sources, whether its state was focused; of those that are not there, it was not.
        """
        source = 0 if answer.grounded is None else answer.grounded.scores.source
        return self.where(source < len(focused) and focused[source])

    def of(self, answer: Answer) -> float | None:
        """Of one answer, 0 to 1; None for a free one, whose scores say how it is worded and not where it stands."""
        if answer.grounded is None:
            return None
        if self.calibration is None:
            return answer.grounded.confidence
        return self.calibration.probability(Evidence.of(answer.grounded).values())

    def withholds(self, confidence: float | None, least: float | None = None) -> bool:
        """Whether an answer of this confidence counts as not found; ``least`` instead of the model's own threshold."""
        return confidence is not None and confidence < (self.threshold if least is None else least)


def _number(value: Json, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_LOG_ODDS:
        raise ModelError(f"{what} is no number", given=f"{value!r:.40}", expected=f"at most ± {MOST_LOG_ODDS:,.0f}")
    return float(value)
