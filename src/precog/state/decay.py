"""How a model's states fade: what a text leaves of everything that was read before it.

A text that a linear recurrence reads takes the state H to P ⊙ H + h, where h is the state of the text alone and
P = exp(λτ) depends on the text by its time τ = Σ_t Δ_t only. That is exact for layer 1, whose inputs are the
embeddings; above, τ and h themselves depend on the states below (ERRATA 21).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Complex128, Float, Float64
from torch import Tensor

from precog.errors import StateError
from precog.state.foreign import foreign
from precog.state.state import State

Factors = Float64[Tensor, "L C"] | Complex128[Tensor, "L C"]
Coordinates = Float64[Tensor, "L C R"] | Complex128[Tensor, "L C R"]


@dataclass(frozen=True, eq=False)
class Decay:
    """The decay rates λ of one model, and how its states are laid out by them.

    The C coordinates of a layer come in g groups of C / g neighbours that share a τ. A real coordinate stands for
    R = S / C neighbouring reals (a head of an outer-product memory); a complex one for the reals m and C + m.

    Attributes:
        rates: Re λ < 0 of every coordinate.
        frequencies: Im λ; None where the states are real.
        fingerprint: of the model.
    """

    rates: Float[Tensor, "L C"]
    frequencies: Float[Tensor, "L C"] | None
    fingerprint: str

    def factors(self, state: State) -> Factors:
        """P = exp(λτ): what reading the state's text leaves of each coordinate that was there before.

        Raises:
            ForeignStateError: the state is another model's.
            StateError: it has read something, but τ was not kept with it.
        """
        if state.fingerprint != self.fingerprint:
            raise foreign(state.fingerprint, self.fingerprint)
        time = state.decay_time.double()
        if state.num_tokens and not time.any():
            raise StateError("τ was not kept with a state", given=state, hint="compose it by mean, or read it again")
        if time.shape[0] != self.rates.shape[0] or self.rates.shape[1] % time.shape[1]:
            given, expected = tuple(time.shape), tuple(self.rates.shape)
            raise StateError("the τ of a state does not fit the model's rates", given=given, expected=expected)
        time = time.repeat_interleave(self.rates.shape[1] // time.shape[1], dim=1)
        radius = (self.rates.double() * time).exp()
        if self.frequencies is None:
            return radius
        return torch.polar(radius, self.frequencies.double() * time)

    def coordinates(self, state: State) -> Coordinates:
        """The state's reals, FP64, by the coordinate they belong to.

        Raises:
            StateError: they are of another number than the rates ask for.
        """
        reals = state.recurrent.double()
        layers, count = self.rates.shape
        size = reals.shape[1]
        if reals.shape[0] != layers or (size % count if self.frequencies is None else size != 2 * count):
            raise StateError("a state does not fit the model's rates", given=state, expected=f"{layers} × {count} λ")
        if self.frequencies is None:
            return reals.view(layers, count, -1)
        return torch.complex(reals[:, :count], reals[:, count:])[..., None]

    def reals(self, coordinates: Coordinates) -> Float[Tensor, "L S"]:
        """Back to the layout of a state, FP32."""
        if coordinates.is_complex():
            return torch.cat((coordinates.real, coordinates.imag), dim=1)[..., 0].float()
        return coordinates.flatten(1).float()


def read_in_order(decay: Decay, states: Sequence[State]) -> Coordinates:
    """H ← P_j ⊙ H + h_j over states in the order given: what `concat` does, as a loop."""
    total = torch.zeros_like(decay.coordinates(states[0]))
    for state in states:
        total = decay.factors(state)[..., None] * total + decay.coordinates(state)
    return total
