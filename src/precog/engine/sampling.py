"""Which token comes next: pure functions from logits to an id."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from precog.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """How to choose a token.

    Attributes:
        temperature: 0 is greedy (the default, so that answers are reproducible; ERRATA 13).
        top_p: the least set of tokens with this probability is kept; 1 keeps all (paper: 0.9).
        top_k: at most this many tokens are kept; 0 keeps all.
        seed: of the random numbers; the same seed, state and question give the same answer.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 100:
            raise UsageError("--temperature is out of range", given=self.temperature, expected="0 to 100")
        if not 0 < self.top_p <= 1:
            raise UsageError("--top-p is out of range", given=self.top_p, expected="above 0, at most 1")
        if self.top_k < 0:
            raise UsageError("--sample-top-k is out of range", given=self.top_k, expected="0 or more")
        if not -(1 << 63) <= self.seed < 1 << 63:
            raise UsageError("--seed is out of range", given=self.seed, expected="a number of 64 bits")

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is always taken."""
        return self.temperature == 0

    def generator(self) -> torch.Generator:
        """Random numbers from the seed, on the CPU wherever the model runs."""
        return torch.Generator().manual_seed(self.seed)


def filtered(logits: Float[Tensor, " V"], sampling: Sampling) -> Float[Tensor, " V"]:
    """Log-probabilities after temperature, top-k and top-p; −inf for what was cut off.

    The most probable token always stays; ties are broken by the lower id.
    """
    scaled = logits.double() / max(sampling.temperature, 1e-6)
    if not sampling.top_k and sampling.top_p == 1:
        return torch.log_softmax(scaled, 0).to(logits.dtype)
    order = torch.sort(scaled, descending=True, stable=True).indices
    keep = torch.ones_like(order, dtype=torch.bool)
    if sampling.top_k:
        keep[sampling.top_k :] = False
    if sampling.top_p < 1:
        probabilities = torch.softmax(scaled[order].masked_fill(~keep, -torch.inf), 0)
        keep &= probabilities.cumsum(0) - probabilities < sampling.top_p
    cut = torch.full_like(scaled, -torch.inf)
    cut[order[keep]] = scaled[order[keep]]
    return torch.log_softmax(cut, 0).to(logits.dtype)


def choose(logits: Float[Tensor, " V"], sampling: Sampling, generator: torch.Generator | None = None) -> int:
    """The next token's id.

    Args:
        logits: scores of every token.
        sampling: how to choose.
        generator: random numbers; needed unless greedy.

    Raises:
        UsageError: sampling without random numbers.
    """
    if sampling.is_greedy:
        return int(logits.argmax())
    if generator is None:
        raise UsageError("sampling needs a generator", hint="Sampling.generator() makes one from the seed")
    probabilities = filtered(logits, sampling).double().exp()
    point = torch.rand((), generator=generator, dtype=torch.float64)
    cumulative = probabilities.cumsum(0)
    index = int(torch.searchsorted(cumulative, point * cumulative[-1], right=True))
    return min(index, int(probabilities.nonzero()[-1]))
