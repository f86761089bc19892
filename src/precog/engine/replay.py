"""Composition by reading: one state is injected and the other members' texts are read after it.

The state that comes out is the one that reading all texts in that order leaves: the exact composition, paid with the
tokens of all texts but the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from precog.backbones.protocol import Backbone
from precog.errors import StateError
from precog.state import State, reading_order


@dataclass(frozen=True)
class Replayed:
    """What replaying leaves.

    Attributes:
        state: after the last text, at a boundary.
        order: members in the order they count as read.
        tokens_read: tokens the model read for it.
    """

    state: State
    order: tuple[int, ...]
    tokens_read: int


def replay(
    backbone: Backbone, states: Sequence[State], chunks: Sequence[Sequence[int]], scores: Sequence[float]
) -> Replayed:
    """Inject the state of the longest chunk and read the others after it, the best one last.

    Exact for that order, as far as the injected state is. The order is not the one that in-context answers read in:
    the longest chunk comes first even where it is the best.

    Args:
        backbone: the model.
        states: of every chunk, at a boundary. Only that of the longest is used; no other needs to be loaded, and may
            stand in for itself as any state of the model.
        chunks: ids of every chunk, without boundary.
        scores: retrieval score of each.

    Raises:
        StateError: there is no member, their numbers differ, or a state is live inside a segment.
        ForeignStateError: the state of the longest chunk is another model's.
        InputError: a chunk to be read is empty or holds a control token.
    """
    if not states or not len(states) == len(chunks) == len(scores):
        given = f"{len(states)} states, {len(chunks)} chunks, {len(scores)} scores"
        raise StateError("replaying needs a text and a score for every state", given=given)
    longest = max(range(len(chunks)), key=lambda j: (len(chunks[j]), -j))
    injected = states[longest]
    order = [longest, *(j for j in reading_order(scores) if j != longest)]
    if injected.is_live and not backbone.spec.carries_tail:
        raise StateError("a live state cannot be composed", given=injected, expected="a boundary state")
    ids = [token for j in order[1:] for token in backbone.reading(chunks[j])]
    if not ids:
        return Replayed(injected, tuple(order), 0)
    batch, _ = backbone.read(backbone.open([injected]), torch.tensor([ids]))
    state = batch.row(0)
    return Replayed(state if backbone.spec.carries_tail else state.at_boundary(), tuple(order), len(ids))
