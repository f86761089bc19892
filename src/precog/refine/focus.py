"""Focus: a chunk's state, turned to the one part of it that a question asks about.

A state that has read many sentences answers about each of them worse than one that has read it alone, and a state of
one sentence alone misses what the rest says. The mean of both is answered from: one state, of the same size.
"""

from precog.backbones.protocol import Backbone
from precog.errors import UsageError
from precog.state import State, StateSpec, compose

__all__ = ["check_can_focus", "focused"]


def focused(chunk: State, part: State, spec: StateSpec) -> State:
    """The mean of a chunk's state and that of one of its parts, read alone, in equal weights (paper Eq. 8).

    Args:
        chunk: state of the whole chunk, at a boundary. Inputs of a convolution are its own (`blend`).
        part: state of the part, at a boundary.
        spec: of the model that made both.

    Returns:
        ½ chunk + ½ part, as large as either. Its ``num_tokens`` is the sum of both.

    Raises:
        ForeignStateError: the two come from different models.
        StateError: one is live, or the model's states cannot be averaged.
    """
    return compose([chunk, part], [0.0, 0.0], spec, rule="mean").state


def check_can_focus(backbone: Backbone) -> None:
    """Refuses a model whose states have no mean.

    Raises:
        UsageError: they hold keys and values of attention.
    """
    if not backbone.spec.averages:
        raise UsageError("this model's states cannot be averaged", given=backbone.card.name, hint="--quality twice")
