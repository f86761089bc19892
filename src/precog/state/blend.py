"""Weighted means of states, whatever their reals mean: memory, scales of it, or the last inputs of a convolution.

A mean of RWKV-4's or xLSTM's numbers as they stand would be none of what they mean: each is in units of exp(m) with an
m of its own. They are brought to the largest m first. The last inputs of a convolution are not averaged: they follow
one member, so that the next token meets inputs that were really there.
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from precog.errors import StateError
from precog.state.spec import StateSpec


def check_averages(spec: StateSpec) -> None:
    """Refuses means of states that have none.

    Raises:
        StateError: they hold keys and values of attention.
    """
    if not spec.averages:
        raise StateError(
            "states with keys and values of attention cannot be averaged: they are bound to their positions",
            hint="use one state, or mix what each would say: --compose mix",
        )


def blend(
    rows: Float[Tensor, "L n S"], weights: Sequence[float], spec: StateSpec, dominant: int | None = None
) -> Float[Tensor, "L S"]:
    """Σ w_j h_j, in FP32.

    Args:
        rows: coordinates of every member.
        weights: of the members; they sum to 1.
        spec: what the coordinates mean.
        dominant: the member whose convolution inputs are kept; the one of the largest weight, of equals the first,
            when None.

    Raises:
        StateError: such states cannot be averaged.
    """
    check_averages(spec)
    factors = rows.new_tensor(list(weights))[None, :, None]
    if spec.scaled:
        rows, scales = _in_common_units(rows, weights, spec)
    mean = (rows * factors).sum(1)
    for position, values in scales.items() if spec.scaled else ():
        mean[:, position] = values
    start, stop = spec.window
    if stop > start:
        chosen = max(range(len(weights)), key=lambda j: (weights[j], -j)) if dominant is None else dominant
        mean[:, start:stop] = rows[:, chosen, start:stop]
    return mean


def _in_common_units(
    rows: Tensor, weights: Sequence[float], spec: StateSpec
) -> tuple[Tensor, dict[int, Float[Tensor, " L"]]]:
    """Rows whose scaled reals are all in units of the largest m among members of any weight, and these m."""
    counted = [j for j, weight in enumerate(weights) if weight > 0]
    rows = rows.clone()
    shared: dict[int, Tensor] = {}
    for scaled in spec.scaled:
        own = rows[:, :, scaled.scales.start : scaled.scales.stop]
        largest = own[:, counted].amax(1)
        factors = (own - largest[:, None]).exp().repeat_interleave(scaled.repeat, dim=2)
        factors[:, [j for j in range(rows.shape[1]) if j not in counted]] = 0
        rows[:, :, scaled.start : scaled.stop] *= factors[:, :, : scaled.stop - scaled.start]
        shared |= {position: largest[:, i] for i, position in enumerate(scaled.scales)}
    return rows, shared
