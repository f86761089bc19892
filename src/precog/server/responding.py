"""A response that goes on from a stored one: its conversation is one state, whatever came before."""

import time
from dataclasses import dataclass, field, replace

import numpy as np

from precog.backbones.protocol import Backbone
from precog.engine import OnText, read_on
from precog.errors import UsageError
from precog.server.answering import Answering, How, Said
from precog.server.conversation import Conversation, Turn, answered_segment
from precog.server.extension import Precog
from precog.state import State, codec_named
from precog.store.response import StoredResponse
from precog.store.responses import ResponseFolder

_CODEC = codec_named("fp32")
"""Exact, so that a conversation that was stored between any two turns is the one that was not."""


@dataclass(frozen=True)
class Ask:
    """What a response is to be made of.

    Attributes:
        id: of the response.
        turns: of the input.
        instructions: read before them, for this answer alone; "" for none.
        previous: id of the response that it goes on from.
        stores: whether it is kept; None where the model allows it.
        how: the answer is to be.
        extension: from what else.
    """

    id: str
    turns: tuple[Turn, ...]
    instructions: str = ""
    previous: str | None = None
    stores: bool | None = None
    how: How = field(default_factory=How)
    extension: Precog | None = None


@dataclass(frozen=True)
class Responded:
    """An answer, and what is to be stored of it.

    Attributes:
        said: the answer.
        stored: without what was said; None where nothing is kept.
    """

    said: Said
    stored: StoredResponse | None


def respond(answering: Answering, folder: ResponseFolder, ask: Ask, keep_sec: float, say: OnText) -> Responded:
    """Answers, and reads question and answer into the state of the conversation.

    Whatever came before, only the new tokens are read. Instructions are no part of what is kept: they hold for one
    answer.

    Args:
        answering: what may be answered from.
        folder: of the asker's responses.
        ask: what for.
        keep_sec: how long the response is kept.
        say: told the answer as it comes.

    Raises:
        MissingError: there is no such previous response.
        ForeignStateError: another model made it.
        UsageError: it is to be stored, and the model's states are of no fixed size.
    """
    backbone = answering.backbone
    stores = not backbone.spec.grows if ask.stores is None else ask.stores
    if stores and backbone.spec.grows:
        hint = 'send "store": false, and the whole conversation each time'
        raise UsageError("this model's states grow with the text, so that no response of it is stored", hint=hint)
    previous = None if ask.previous is None else folder.get(ask.previous)
    before = None if previous is None else state_of(previous, backbone)
    plain = Conversation.of(ask.turns)
    asked = Conversation.of([Turn("system", ask.instructions), *ask.turns])
    said = answering.answer(asked, ask.how, ask.extension, before=before, say=say)
    if not stores:
        return Responded(said, None)
    opening = plain.opening(backbone)
    state, num_read = said.context, 0
    if state is None or asked.turns != plain.turns:
        state = read_on(backbone, backbone.empty_state() if before is None else before, opening)
        num_read += len(opening)
    segment = answered_segment(backbone, plain.question, said.text)
    state = read_on(backbone, state, segment)
    processed = said.details.get("tokens_processed")
    total = num_read + len(segment) + (processed if isinstance(processed, int) else 0)
    said = replace(said, details={**said.details, "tokens_processed": total})
    uses = said.uses if previous is None else said.uses | previous.uses
    now = time.time()
    stored = StoredResponse(
        ask.id,
        ask.previous,
        uses,
        {},
        [],
        state.fingerprint,
        state.num_tokens,
        _CODEC.encode(state, backbone.spec),
        np.ascontiguousarray(state.decay_time.numpy().astype("<f4")).tobytes(),
        now,
        now + keep_sec,
    )
    return Responded(said, stored)


def state_of(stored: StoredResponse, backbone: Backbone) -> State:
    """The state of a stored response.

    Raises:
        ForeignStateError: another model made it.
        DamagedStateError: its bytes are not of this model's size.
    """
    stored.check_model(backbone.fingerprint, backbone.card.name)
    return _CODEC.decode(
        stored.state,
        backbone.spec,
        None,
        num_tokens=stored.num_tokens,
        decay_time=np.frombuffer(stored.decay_time, "<f4"),
        encoding_dtype=backbone.encoding_dtype,
    )
