"""How long the gates let a memory live: products of actual decays along a text (paper, appendix B).

What a token wrote into a coordinate is multiplied by exp(Δ·Re λ) at every later token, and the horizon is the number
of tokens after which the product has fallen to a share. The paper compares a product of vectors with one number; here
every coordinate has its own horizon, and quantiles are reported (ERRATA 30).

The product is exact for the first layer. Above, it says how long a layer keeps what it wrote, given the layer's inputs;
these depend on the states below, so a token may reach the layer later, by way of another one, and stay longer than
the product says (ERRATA 21).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precog.backbones.gates import Gates

SHARE_LEFT = math.exp(-1)  # what counts as the end of a memory
SMALL_SHARE_LEFT = 0.01
_ENDS = 64  # positions of a text from which memory is followed back

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quantiles:
    """The 10 %, 50 % and 90 % quantiles of something."""

    q10: float
    q50: float
    q90: float

    @classmethod
    def of(cls, values: Floats) -> "Quantiles":
        """Of all values of an array."""
        low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
        return cls(float(low), float(middle), float(high))

    def to_json(self) -> dict[str, float]:
        """As the command line prints them."""
        return {"q10": round(self.q10, 4), "q50": round(self.q50, 4), "q90": round(self.q90, 4)}


@dataclass(frozen=True)
class LayerHorizon:
    """What the gates of one layer say, over its coordinates and positions of a text, in tokens.

    Attributes:
        layer: 1 is the one that reads the embeddings.
        tokens: until 1/e is left.
        to_one_percent: until 1 % is left.
    """

    layer: int
    tokens: Quantiles
    to_one_percent: Quantiles


@dataclass(frozen=True)
class GateMemory:
    """What the gates of a model say.

    Attributes:
        layers: from the embeddings upwards.
        median_tokens: until 1/e is left, over all layers and coordinates.
        beyond_text: share of these horizons that are longer than the text before them, and continued at its mean.
    """

    layers: tuple[LayerHorizon, ...]
    median_tokens: float
    beyond_text: float


def gate_memory(gates: Gates) -> GateMemory:
    """Quantiles of `gate_horizons`, layer by layer."""
    horizons, beyond_text = gate_horizons(gates, SHARE_LEFT)
    small, _ = gate_horizons(gates, SMALL_SHARE_LEFT)
    layers = tuple(
        LayerHorizon(number, Quantiles.of(tokens), Quantiles.of(to_small))
        for number, (tokens, to_small) in enumerate(zip(horizons, small, strict=True), 1)
    )
    return GateMemory(layers, float(np.median(np.stack(horizons))), beyond_text)


def gate_horizons(gates: Gates, share: float) -> tuple[list[Floats], float]:
    """Tokens until the memory of each coordinate falls to a share, followed back from positions of a text.

    From the state after token t, what was written n tokens before weighs ∏_{s=t−n+1}^{t} exp(Δ_s·Re λ); the horizon is
    the n, interpolated between tokens, at which this is ``share``. Positions are spread over the second half of the
    text. A horizon that reaches beyond its beginning goes on at the mean rate of the whole text.

    Args:
        gates: of a text.
        share: between 0 and 1.

    Returns:
        Per layer the horizons [C, positions] in tokens, and the share of them that reach beyond the text.
    """
    steps, rates = gates.steps.double().numpy(), gates.rates.double().numpy()
    num_layers, length, groups = steps.shape
    per_group = rates.shape[1] // groups
    ends = np.unique(np.linspace(-(-length // 2), length, _ENDS).astype(np.int64))
    clock = np.arange(length + 1, dtype=np.float64)
    horizons, num_beyond = [], 0
    for layer in range(num_layers):
        elapsed = np.concatenate((np.zeros((1, groups)), steps[layer].cumsum(0)))  # Δ summed over the tokens so far
        found = np.empty((rates.shape[1], len(ends)))
        for c in range(rates.shape[1]):
            passed = elapsed[:, c // per_group]
            wanted = passed[ends] - math.log(share) / rates[layer, c]
            before = wanted * length / passed[-1]  # negative: tokens before the text, at its mean rate
            found[c] = ends - np.where(wanted < 0, before, np.interp(wanted, passed, clock))
            num_beyond += int((wanted < 0).sum())
        horizons.append(found)
    return horizons, num_beyond / (num_layers * rates.shape[1] * len(ends))
