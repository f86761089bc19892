"""A study that trains nothing: states come back a little larger, and what it was given is written down."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from precog.backbones.protocol import Backbone
from precog.refine.study import Studied, StudySettings
from precog.state import State

SPOILT = "spoilt"
"""A text with this word ends in no number."""


@dataclass
class PretendedStudy:
    """Stands for `precog.refine.study.study`.

    Attributes:
        stops_at: the call, from 1, that is interrupted; 0 for none.
    """

    stops_at: int = 0
    texts: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    token_ids: list[list[int]] = field(default_factory=list)
    settings: list[StudySettings] = field(default_factory=list)

    def __call__(
        self,
        backbone: Backbone,
        texts: Sequence[str],
        titles: Sequence[str],
        token_ids: Sequence[Sequence[int]],
        states: Sequence[State],
        settings: StudySettings,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[Studied]:
        self.settings.append(settings)
        if len(self.settings) == self.stops_at:
            raise KeyboardInterrupt
        self.texts += texts
        self.titles += titles
        self.token_ids += map(list, token_ids)
        return [self._studied(text, state) for text, state in zip(texts, states, strict=True)]

    def _studied(self, text: str, state: State) -> Studied:
        if SPOILT in text:
            return Studied(state, False, 1, 2.0, math.nan, 0.1, "not a number")
        return Studied(larger(state), True, 5, 2.0, 1.0, 0.1, "")


def larger(state: State) -> State:
    """A state that reading does not give."""
    return State(
        state.recurrent * 1.25,
        tail=state.tail,
        num_tokens=state.num_tokens,
        fingerprint=state.fingerprint,
        decay_time=state.decay_time,
        encoding_dtype=state.encoding_dtype,
    )
