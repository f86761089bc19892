"""What a backbone that forgets by known factors shows of its forgetting; asked for by capability, never by type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from precog.state import Decay, State


@dataclass(frozen=True)
class Gates:
    """How much of each coordinate every token let live: exp(Δ·Re λ), as its two factors.

    The C coordinates of a layer are those that may decay differently (complex modes, or heads); they come in g groups
    of C / g neighbours with one Δ each.

    Attributes:
        steps: Δ > 0 at every token of the text, per layer and group.
        rates: Re λ < 0 per layer and coordinate.
    """

    steps: Float[Tensor, "L T g"]
    rates: Float[Tensor, "L C"]


@runtime_checkable
class GatedBackbone(Protocol):
    """A backbone whose recurrence multiplies each coordinate of its state by a factor it can name."""

    def gates(self, token_ids: Sequence[int]) -> Gates:
        """The gates of reading a text from nothing."""
        ...


@runtime_checkable
class FadingBackbone(Protocol):
    """A backbone that can say what reading a text leaves of the state before, from the text's τ alone."""

    def decay(self) -> Decay:
        """Its decay rates, and how its states are laid out by them."""
        ...


@runtime_checkable
class AlongBackbone(Protocol):
    """A backbone that can show the states along a segment without reading it piece by piece."""

    def states_along(self, token_ids: Sequence[int], cuts: Sequence[int]) -> list[State] | None:
        """Boundary states after some tokens of a segment, in one pass; None where it is too long for that."""
        ...


def decay_of(backbone: object) -> Decay | None:
    """The decay rates of a backbone, or None where it has none to show."""
    return backbone.decay() if isinstance(backbone, FadingBackbone) else None
