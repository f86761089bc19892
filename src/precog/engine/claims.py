"""What states say of themselves: how likely it is that what they have read answers a question."""

from collections.abc import Sequence

import torch

from precog.backbones.protocol import Backbone
from precog.state import State

_MOST = 30.0


def claims(backbone: Backbone, states: Sequence[State], question_ids: Sequence[int]) -> list[float]:
    """Log-odds, of every state, that it holds an answer: (1 - p(end)) / p(end) of the first token.

    The states are rows of one batch. A model that was trained to say so ends at once where what it has read does not
    answer the question.

    Args:
        backbone: the model.
        states: at least one. They are not changed.
        question_ids: the question's segment, boundary first.

    Returns:
        As many numbers, none further from 0 than 30.

    Raises:
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
    """
    tokens = torch.tensor([list(question_ids)] * len(states), dtype=torch.int64)
    _, hidden = backbone.read(backbone.open(states), tokens)
    scores = backbone.logits(hidden).double()
    ends = [backbone.tokenizer.eos_id, backbone.tokenizer.boundary_id]
    none = torch.logsumexp(scores[:, ends], 1)
    scores[:, ends] = -torch.inf
    odds = (torch.logsumexp(scores, 1) - none).clamp(-_MOST, _MOST)
    return [float(value) for value in odds]
