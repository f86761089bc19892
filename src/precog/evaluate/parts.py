"""Parts of passages: read alone and stored before anybody asks, and chosen by what is asked.

Nothing but a passage goes into its parts, their keys and their states; a question chooses among them, as `precog ask`
does in a corpus of quality ``study``.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.engine.templates import question_segment
from precog.evaluate.retrieving import encoder_of
from precog.evaluate.stored import Stored
from precog.index.nearness import DOUBT, MOST, nearest, nearness
from precog.refine.choice import STUDY
from precog.refine.focus import check_can_focus, eligible, focus
from precog.state import Codec, State
from precog.text.chunking.parts import parts_of

__all__ = ["ENCODE_TOGETHER", "Focused", "Part", "Parts", "about_parts", "parts_for"]

ENCODE_TOGETHER = 16
_KEPT_QUESTIONS = 32


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a passage.

    Attributes:
        text: of the part.
        token_ids: of the text, without boundary.
        key: rows of the encoder, one per window.
        stored: the state of the part, read alone.
    """

    text: str
    token_ids: list[int]
    key: Float32[np.ndarray, "_ E"]
    stored: Stored


@dataclass(frozen=True)
class Focused:
    """What a question is answered from.

    Attributes:
        state: the passage's, focused on one of its parts; its own where it has none.
        part: that one.
        in_doubt: whether others were nearly as near, so that the states were asked.
        tokens_read: to choose it.
        seconds: for choosing the part, decoding states and averaging. The key of the question is not counted:
            searching for the passage has made it.
    """

    state: State
    part: Part | None = None
    in_doubt: bool = False
    tokens_read: int = 0
    seconds: float = 0.0

    @property
    def is_focused(self) -> bool:
        """Whether the state is more than the passage's own."""
        return self.part is not None


class Parts:
    """The parts of passages, with their keys and stored states.

    Args:
        backbone: the model, in the encode mode that is wanted.
        encoder: of sentences.
        codec: that states are stored in.
        kept: passages whose parts are kept, the one that was asked for longest ago goes first; all when None.
    """

    def __init__(self, backbone: Backbone, encoder: Encoder, codec: Codec, kept: int | None = None) -> None:
        self.encoder = encoder
        self._backbone, self._codec, self._kept = backbone, codec, kept
        self._parts: OrderedDict[str, tuple[Part, ...]] = OrderedDict()
        self._key = lru_cache(maxsize=_KEPT_QUESTIONS)(encoder.encode_query)

    def of(self, passage: str) -> tuple[Part, ...]:
        """The parts of a passage, read where they have not been; none where it is a single one."""
        if passage not in self._parts:
            self._parts[passage] = self._read(passage)
            while self._kept is not None and len(self._parts) > self._kept:
                self._parts.popitem(last=False)
        self._parts.move_to_end(passage)
        return self._parts[passage]

    def _read(self, passage: str) -> tuple[Part, ...]:
        texts = [passage[start:stop] for start, stop in parts_of(passage)]
        if not texts:
            return ()
        ids = [self._backbone.tokenizer.encode(text) for text in texts]
        states: list[State] = []
        for start in range(0, len(ids), ENCODE_TOGETHER):
            states += self._backbone.encode_chunks(ids[start : start + ENCODE_TOGETHER])
        stored = [Stored.of(state, self._codec, self._backbone.spec) for state in states]
        return tuple(map(Part, texts, ids, self.encoder.encode_passages(texts), stored))

    def num_bytes(self, passage: str) -> int:
        """Bytes of the encoded states of a passage's parts."""
        return sum(len(part.stored.data) for part in self.of(passage))

    def nearest(self, question: str, question_ids: Sequence[int], passage: str) -> list[tuple[Part, float]]:
        """The parts that a question may be about, the nearest first, with their nearness; none of a single one.

        Args:
            question: in words.
            question_ids: its segment, boundary first.
            passage: whose parts they are.
        """
        parts = self.of(passage)
        if not parts:
            return []
        key = self._key(question)
        texts = [part.text for part in parts]
        scores = nearness(question, key, texts, [part.key for part in parts])
        found = eligible(self._backbone, nearest(scores, texts), question_ids)
        return [(parts[number], near) for number, near in found]

    def state(self, part: Part) -> State:
        """A part's own state, decoded anew."""
        return part.stored.state(self._codec, self._backbone.spec)

    def focused(self, state: State, question: str, passage: str) -> Focused:
        """A passage's state, focused on the part that a question is about.

        Args:
            state: of the passage, as a store gives it back.
            question: that is asked.
            passage: whose parts are chosen from.
        """
        self.of(passage), self._key(question)
        started = time.perf_counter()
        asked = question_segment(self._backbone, question)
        found = self.nearest(question, asked, passage)
        if not found:
            return Focused(state)
        states = [self.state(part) for part, _ in found]
        made = focus(self._backbone, state, states, [near for _, near in found], asked)
        return Focused(
            state=made.state,
            part=found[made.number][0],
            in_doubt=len(found) > 1,
            tokens_read=made.tokens_read,
            seconds=time.perf_counter() - started,
        )


def parts_for(
    quality: str, backbone: Backbone, encoder: Encoder | str | None, codec: Codec, kept: int | None = None
) -> Parts | None:
    """The parts that states of a quality are focused on; None where they are not.

    Args:
        quality: ``fast``, ``twice`` or ``study``.
        backbone: the model.
        encoder: of sentences, or where it is; the default one when None.
        codec: that states are stored in.
        kept: as of `Parts`.

    Raises:
        UsageError: the model's states cannot be averaged.
        EncoderError: there is no such encoder.
    """
    if quality != STUDY:
        return None
    check_can_focus(backbone)
    return Parts(backbone, encoder_of(encoder), codec, kept)


def about_parts(parts: Parts | None) -> dict[str, object]:
    """What decides the answers of focused states, as settings of an experiment name it; nothing without parts."""
    if parts is None:
        return {}
    return {"quality": STUDY, "parts": {"doubt": DOUBT, "most": MOST}}
