"""Composition rules that make one state of several, by arithmetic on the states alone (ARCHITECTURE, *Composition*).

Members come in the order of reading, the best one last. Every rule takes coordinates h_j and what their texts leave of
earlier ones, P_j = exp(λτ_j). All are approximate: above layer 1, what a text writes depends on what was read before.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from precog.state.decay import Decay, read_in_order
from precog.state.state import State

MOST_PERMUTED = 8  # members up to which all orders are averaged; beyond, their rotations


def concatenated(states: Sequence[State], decay: Decay) -> Tensor:
    """H ← P_j ⊙ H + h_j, best last: what reading the texts one after the other leaves in layer 1, exactly."""
    return decay.reals(read_in_order(decay, states))


def permuted(states: Sequence[State], decay: Decay) -> Tensor:
    """The mean of `concatenated` over all n! orders, in closed form; over the n rotations for more than 8 members.

    In a random order the texts after member i are a random subset of the others, of any size m < n alike, so that it
    fades by (1/n) Σ_m e_m({P_j}_{j≠i}) / C(n−1, m) on average, e_m being the elementary symmetric polynomials.
    """
    factors = [decay.factors(state) for state in states]
    fading = _mean_over_orders if len(states) <= MOST_PERMUTED else _mean_over_rotations
    total = torch.zeros_like(decay.coordinates(states[0]))
    for i, state in enumerate(states):
        total = total + fading(factors, i)[..., None] * decay.coordinates(state)
    return decay.reals(total)


def _mean_over_orders(factors: Sequence[Tensor], i: int) -> Tensor:
    others = [factor for j, factor in enumerate(factors) if j != i]
    symmetric = [torch.ones_like(factors[0])]  # e_0, e_1 … of the others seen so far
    for factor in others:
        with_factor = [factor * polynomial for polynomial in symmetric]
        rest = zip(symmetric[1:], with_factor, strict=False)
        symmetric = [symmetric[0], *(without + more for without, more in rest), with_factor[-1]]
    n = len(factors)
    weighted = [polynomial / math.comb(n - 1, m) for m, polynomial in enumerate(symmetric)]
    return torch.stack(weighted).sum(0) / n


def _mean_over_rotations(factors: Sequence[Tensor], i: int) -> Tensor:
    n = len(factors)
    after = torch.ones_like(factors[0])
    total = after.clone()
    for step in range(1, n):
        after = after * factors[(i + step) % n]
        total = total + after
    return total / n


def renormed(reals: Tensor, members: Tensor, weights: Sequence[float]) -> Tensor:
    """Each layer scaled to the weighted mean of its members' norms: an average shrinks it (ERRATA 15).

    Args:
        reals: composed, [L, S].
        members: of every member, [L, n, S].
        weights: that sum to 1.
    """
    wanted = (members.double().norm(dim=2) * torch.tensor(weights, dtype=torch.float64)).sum(1)
    size = reals.double().norm(dim=1)
    scale = torch.where(size > 0, wanted / size.clamp_min(torch.finfo(torch.float64).tiny), 1.0)
    return (reals.double() * scale[:, None]).float()
