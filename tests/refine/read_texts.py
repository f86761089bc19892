"""Texts of which many questions can be made, read by a tiny model."""

from dataclasses import dataclass

from precog.backbones.tenns.backbone import TennsBackbone
from precog.refine.exercise import Exercises, exercises_of
from precog.state import State

MARROW = (
    "The lighthouse of Marrow was built in 1843 by Ada Quill. Its lamp burned 40 litres of whale oil a week. "
    "In 1871, the harbour of Brennick was closed because the river had filled it with sand. Tom Reed moved to Paris "
    "with his sister Eve Long and opened a school there in 1880."
)
OUSE = (
    "A mill stands on the river Ouse in Kentmere. Its wheel was made of oak by Jonas Weld in 1790. "
    "The miller sold 300 sacks of flour to the town of Sark every year. In 1822, Mary Holt bought the mill for "
    "900 pounds and turned it into a library. The poet Silas Crane lived there until March 1850."
)
HELM = (
    "The mountain railway of Helm was opened on 4 May 1901 by Queen Ingrid. It climbs 1,200 metres in 14 kilometres. "
    "Its engineer, Otto Brandt, died in Geneva before the last bridge was finished. A storm destroyed the station of "
    "Upper Helm in 1936, and the town of Lund paid for a new one."
)
TEXTS = [MARROW, OUSE, HELM]
BARE = "…"
"""A text of which no question can be made."""


@dataclass(frozen=True)
class Read:
    """Texts as `study` is given them, and what `descend` makes of those."""

    backbone: TennsBackbone
    texts: list[str]
    token_ids: list[list[int]]
    states: list[State]

    @classmethod
    def by(cls, backbone: TennsBackbone, texts: list[str]) -> "Read":
        ids = [backbone.tokenizer.encode(text) for text in texts]
        return cls(backbone, texts, ids, backbone.encode_chunks(ids))

    @property
    def exercises(self) -> list[Exercises]:
        made = [
            exercises_of(self.backbone, text, "", ids) for text, ids in zip(self.texts, self.token_ids, strict=True)
        ]
        return [exercises for exercises in made if exercises is not None]
