"""How other programs want an answer, and what they are told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from precog.engine import Sampling


@dataclass(frozen=True)
class Asking:
    """How an answer is to be.

    Attributes:
        top_k: chunks and deposits that are retrieved and cited.
        free: let the model say what it likes, not only what stands in what was found.
        min_confidence: below it the answer is that there is none; None for the model's own threshold.
        always_answer: answer whatever the confidence.
        max_tokens: most tokens of an answer; None for the model's habit.
        sampling: how tokens of a free answer are chosen.
    """

    top_k: int = 3
    free: bool = False
    min_confidence: float | None = None
    always_answer: bool = False
    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)


SETTINGS = ("top_k", "free", "min_confidence", "always_answer", "temperature", "seed", "max_tokens")
"""What models of other programs have of it, under these names."""


def asking(model: object, given: Mapping[str, Any]) -> Asking:
    """The same from the settings of a model of another program, and from those that are given with a question.

    Raises:
        UsageError: one of them is out of range.
    """
    settings = {name: given.get(name, getattr(model, name)) for name in SETTINGS}
    sampling = Sampling(temperature=settings.pop("temperature"), seed=settings.pop("seed"))
    return Asking(**settings, sampling=sampling)


@dataclass(frozen=True)
class Passage:
    """Something that was found: a chunk of the corpus, or what somebody said.

    Attributes:
        text: its words.
        score: what it is ordered by.
        metadata: where it stands, or who said it when.
    """

    text: str
    score: float
    metadata: dict[str, object]

    @classmethod
    def of(cls, found: Mapping[str, object]) -> "Passage":
        """The same of what the command line prints."""
        rest = {name: value for name, value in found.items() if name not in ("text", "score") and value is not None}
        return cls(str(found["text"]), float(str(found["score"])), rest)


@dataclass(frozen=True)
class Told:
    """An answer, whatever it comes from.

    Attributes:
        text: it.
        model: name of the model.
        passages: what it stands on, the best first; none where there is no answer, or nothing was looked for.
        details: all that is known of it, as the command line prints it.
    """

    text: str
    model: str
    passages: tuple[Passage, ...]
    details: dict[str, object]

    @property
    def short_details(self) -> dict[str, object]:
        """The details without the text and what was found."""
        left_out = ("text", "sources", "evidence", "looked_at")
        return {name: value for name, value in self.details.items() if name not in left_out}
