"""Reading on from a state: what a conversation does between two answers."""

from collections.abc import Sequence

import torch

from precog.backbones.protocol import Backbone
from precog.interrupt import check_asked
from precog.state import State

PIECE_TOKENS = 512


def read_on(backbone: Backbone, state: State, token_ids: Sequence[int]) -> State:
    """The boundary state after reading whole segments from a boundary state.

    Read in pieces, live states in between, so that whoever asked may go meanwhile; exact by split invariance.

    Args:
        backbone: the model.
        state: what has been read; it is not changed.
        token_ids: segments one after the other, each with its opening; the state itself comes back for none.

    Raises:
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
        CancelledError: whoever asked has gone.
    """
    if not token_ids:
        return state
    batch = backbone.open([state])
    for start in range(0, len(token_ids), PIECE_TOKENS):
        check_asked()
        batch, _ = backbone.read(batch, torch.tensor([list(token_ids[start : start + PIECE_TOKENS])]))
    after = batch.row(0)
    return after if backbone.spec.carries_tail else after.at_boundary()
