"""The same questions of SQuAD, answered from altered states: what layers, temperatures and codecs do to answers.

An experiment says which variants there are, and which state each of them answers a question from; everything else is
the same for all. Rows of the report are paired with one of them on the same questions.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from precog.backbones.protocol import Backbone
from precog.evaluate.experiment import Record
from precog.evaluate.passage_states import PassageStates
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.scores import Scored, about, decoding_of, f1_gain, scored, table_row
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import ids_sha256
from precog.state import State

__all__ = ["AlteredStates", "Given", "Variant"]


@dataclass(frozen=True)
class Variant:
    """One row of the report.

    Attributes:
        name: of the row.
        facts: reported beside its scores, such as bytes.
    """

    name: str
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """What a variant answers a question from.

    Attributes:
        state: that is injected.
        paragraphs: that a grounded answer may be a span of.
        notes: kept in the record, such as weights.
    """

    state: State
    paragraphs: Sequence[str]
    notes: Mapping[str, object] = field(default_factory=dict)


class AlteredStates(ABC):
    """An experiment whose items are questions, each answered from the state of every variant.

    Args:
        questions: that are asked.
        backbone: the model.
        variants: rows of the report, in its order.
        against: the variant that the others are compared with.
        choices: JSON data that decides the variants' states, ``seed`` and ``codec`` among it.
        free: decode freely instead of grounded.
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
        *,
        free: bool,
    ) -> None:
        self.questions = questions
        self.backbone = backbone
        self.variants = variants
        self.against = against
        codec = str(choices["codec"])
        decoding = decoding_of(backbone, free=free)
        self._reader = ParagraphReader(backbone, codec, decoding)
        self.states = PassageStates(backbone)
        self.settings = {
            **about(backbone, codec, decoding),
            **choices,
            "variants": [variant.name for variant in variants],
            "ids_sha256": ids_sha256(questions),
        }

    @abstractmethod
    def given(self, question: Question) -> Iterator[Given]:
        """What each of the variants answers a question from, in their order."""

    def __len__(self) -> int:
        """Questions."""
        return len(self.questions)

    def measure(self, number: int) -> Record:
        """One question: ``{"id", "said": {variant: {"text", "em", "f1", "tokens_processed", "latency_sec", …}}}``."""
        question = self.questions[number]
        said = {}
        for variant, given in zip(self.variants, self.given(question), strict=True):
            answer = self._reader.answer_from(given.state, question.question, given.paragraphs)
            said[variant.name] = {**scored(answer, question.answers), **given.notes}
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
