"""The same questions of SQuAD, answered in several variants; rows of the report are paired with one of them.

An experiment says which variants there are, and what each of them answers; everything else is the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from precog.backbones.protocol import Backbone
from precog.evaluate.experiment import Record
from precog.evaluate.passage_states import PassageStates
from precog.evaluate.reader import Said
from precog.evaluate.scores import Decoding, Scored, about, f1_gain, scored, table_row
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import ids_sha256

__all__ = ["Noted", "Variant", "Variants", "answers_of"]

Noted = tuple[Said, Mapping[str, object]]
"""An answer, and what is kept in the record beside its scores, such as weights."""


@dataclass(frozen=True)
class Variant:
    """One row of the report.

    Attributes:
        name: of the row.
        facts: reported beside its scores, such as bytes.
    """

    name: str
    facts: Mapping[str, object] = field(default_factory=dict)


class Variants(ABC):
    """An experiment whose items are questions, each answered by every variant.

    Args:
        questions: that are asked.
        backbone: the model.
        variants: rows of the report, in its order.
        against: the variant that the others are compared with.
        choices: JSON data that decides what the variants answer, ``seed`` and ``codec`` among it.
        decoding: how answers are decoded.
    """

    name: str
    settings: Mapping[str, object]

    def __init__(
        self,
        questions: Sequence[Question],
        backbone: Backbone,
        variants: Sequence[Variant],
        against: str,
        choices: Mapping[str, object],
        decoding: Decoding,
    ) -> None:
        self.questions = questions
        self.backbone = backbone
        self.variants = variants
        self.against = against
        self.decoding = decoding
        self.states = PassageStates(backbone)
        self.settings = {
            **about(backbone, str(choices["codec"]), decoding),
            **choices,
            "variants": [variant.name for variant in variants],
            "ids_sha256": ids_sha256(questions),
        }

    @abstractmethod
    def answers(self, question: Question) -> Iterator[Noted]:
        """What each of the variants answers to a question, in their order."""

    def __len__(self) -> int:
        """Questions."""
        return len(self.questions)

    def measure(self, number: int) -> Record:
        """One question: ``{"id", "said": {variant: {"text", "em", "f1", "tokens_processed", "latency_sec", …}}}``."""
        question = self.questions[number]
        said = {}
        for variant, (answer, notes) in zip(self.variants, self.answers(question), strict=True):
            said[variant.name] = {**scored(answer, question.answers), **notes}
        return {"id": question.id, "said": said}

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """``{"rows": {variant: {facts, "em", "f1", their intervals, "f1_gain": {"value", "low", "high"}}}, …}``."""
        of = {variant.name: answers_of(records, variant.name) for variant in self.variants}
        rows = {
            variant.name: {
                **variant.facts,
                **table_row(of[variant.name]),
                "f1_gain": f1_gain(of[variant.name], of[self.against]),
            }
            for variant in self.variants
        }
        return {"rows": rows, "against": self.against, "n": len(records), **self.settings}


def answers_of(records: Sequence[Record], variant: str) -> list[Scored]:
    """A variant's answers to all questions."""
    return [cast(Mapping[str, Any], record["said"])[variant] for record in records]
