"""What a grounded search says about its own answer: the numbers that a probability of being right is made of.

They fall out of the search; nothing more is read for them. What else it knows (the runner-up, the least likely token,
the length, what the model would say freely) adds nothing to these three (docs/LOG.md).
"""

from dataclasses import asdict, dataclass, fields

from precog.engine.grounded import Grounded

__all__ = ["FEATURES", "Evidence"]

LEAST_LOG_PROBABILITY = -30.0
"""Log-probabilities below it are taken for it, so that one that is all but impossible does not outweigh the rest."""


@dataclass(frozen=True)
class Evidence:
    """Of one answer, in nats; log-probabilities are at least −30.

    Attributes:
        log_probability: of the answer and its end, under the mask.
        no_answer: log p(no answer): of the end before any token.
        free_entropy: of the first token over the whole vocabulary.
    """

    log_probability: float
    no_answer: float
    free_entropy: float

    @classmethod
    def of(cls, found: Grounded) -> "Evidence":
        """What a search says about the best span it found, in the source where that stands."""
        scores = found.scores
        return cls(
            log_probability=max(scores.log_probability, LEAST_LOG_PROBABILITY),
            no_answer=max(scores.no_answer_log_probability, LEAST_LOG_PROBABILITY),
            free_entropy=scores.free_entropy,
        )

    def values(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


FEATURES = tuple(entry.name for entry in fields(Evidence))
