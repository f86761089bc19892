"""Passages read once: the states of the last few are kept, since several questions may be asked of each."""

from collections import OrderedDict

from precog.backbones.protocol import Backbone
from precog.evaluate.parts import Focused, Parts
from precog.refine.quality import QualityStates
from precog.refine.study import StudySettings
from precog.state import Codec, State

__all__ = ["PassageStates"]

KEPT = 32


class PassageStates:
    """States of passages, each of which is one chunk, whatever its length.

    Args:
        backbone: the model.
        kept: passages whose states are kept; the one that was asked for longest ago goes first.
        study: how states are studied; None where they are only read.
        parts: of passages, one or two of which a state is focused on; None where it stays as it is.

    Attributes:
        made: where the states come from.
    """

    def __init__(
        self,
        backbone: Backbone,
        kept: int = KEPT,
        study: StudySettings | None = None,
        parts: Parts | None = None,
    ) -> None:
        self._backbone = backbone
        self._parts = parts
        self.made = QualityStates(backbone, study)
        self._kept = kept
        self._states: OrderedDict[str, State] = OrderedDict()

    def exact(self, passage: str) -> State:
        """The state as the model, and studying where it is studied, leave it.

        Raises:
            InputError: the passage is empty.
        """
        if passage not in self._states:
            [(state, _)] = self.made.make([passage], [self._backbone.tokenizer.encode(passage)])
            self._states[passage] = state
            while len(self._states) > self._kept:
                self._states.popitem(last=False)
        self._states.move_to_end(passage)
        return self._states[passage]

    def stored(self, passage: str, codec: Codec) -> State:
        """The state as a store gives it back."""
        return codec.rounded(self.exact(passage), self._backbone.spec)

    def focused(self, passage: str, codec: Codec, question: str) -> Focused:
        """What a question is answered from: `stored`, focused on one of its parts where these are kept."""
        state = self.stored(passage, codec)
        return Focused(state) if self._parts is None else self._parts.focused(state, question, passage)
