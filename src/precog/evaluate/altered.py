"""The same questions of SQuAD, answered from altered states: what layers, temperatures and codecs do to answers.

An experiment says which variants there are, and which state each of them answers a question from.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from precog.backbones.protocol import Backbone
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.scores import decoding_of
from precog.evaluate.squad_data import Question
from precog.evaluate.variants import Noted, Variant, Variants
from precog.state import State

__all__ = ["AlteredStates", "Given", "Variant"]


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


class AlteredStates(Variants):
    """Variants that each answer from one state.

    Args:
        questions, backbone, variants, against, choices: as for `Variants`.
        free: decode freely instead of grounded.
    """

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
        decoding = decoding_of(backbone, free=free)
        super().__init__(questions, backbone, variants, against, choices, decoding)
        self._reader = ParagraphReader(backbone, str(choices["codec"]), decoding)

    @abstractmethod
    def given(self, question: Question) -> Iterator[Given]:
        """What each of the variants answers a question from, in their order."""

    def answers(self, question: Question) -> Iterator[Noted]:
        """What is answered from each of the states given."""
        for given in self.given(question):
            yield self._reader.answer_from(given.state, question.question, given.paragraphs), given.notes
