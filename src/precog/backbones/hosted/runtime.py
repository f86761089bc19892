"""What another library's model has to bring to become a backbone: passes over rows of plain reals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.state import Scaled


@dataclass(frozen=True)
class RowShape:
    """How a model's recurrent memory is laid out as one row of reals per layer.

    Attributes:
        layers: L, layers that keep a state.
        reals: S, reals of the longest row.
        layer_reals: reals of each layer, where they differ; empty where all have S.
        window: the reals (start, stop) that are the last inputs of a convolution or of a token shift.
        scaled: the reals that are in units of exp(m).
        averages: whether a weighted mean of rows means anything.
        exact: whether reading on from a row equals one pass, at FP32, to 1e-4 in every logit.
        token_reals: reals that each token read adds to each layer, where rows hold keys and values of attention; the
            other sizes are those of having read nothing. Empty where rows never grow.
    """

    layers: int
    reals: int
    layer_reals: tuple[int, ...] = ()
    window: tuple[int, int] = (0, 0)
    scaled: tuple[Scaled, ...] = ()
    averages: bool = True
    exact: bool = True
    token_reals: tuple[int, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether rows grow with the tokens read."""
        return any(self.token_reals)

    def with_room(self, num_tokens: int) -> "RowShape":
        """The same rows with room for keys and values of some tokens."""
        if not self.grows:
            return self
        fixed = self.layer_reals or (self.reals,) * self.layers
        layer_reals = tuple(reals + num_tokens * added for reals, added in zip(fixed, self.token_reals, strict=True))
        return replace(self, reals=max(layer_reals), layer_reals=layer_reals)


@runtime_checkable
class Runtime(Protocol):
    """One model of another library, as a function of states: nothing is kept between calls.

    Attributes:
        shape: of its rows.
        vocab_size: V, scores after every token.
        device: where it computes.
        dtype: compute dtype; rows are FP32 whatever it is.
    """

    shape: RowShape
    vocab_size: int
    device: torch.device
    dtype: torch.dtype

    def empty(self) -> Float[Tensor, "L S"]:
        """The rows of having read nothing at all."""
        ...

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        rows: Float[Tensor, "L B S"],
        num_tokens: Sequence[int],
        *,
        every: bool,
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S2"]]:
        """Read tokens from rows, in as few passes as the model allows.

        Args:
            tokens: at least one per row.
            rows: where to start; they are not changed.
            num_tokens: tokens each row has read.
            every: scores after every token (n = T), or after the last alone (n = 1).

        Returns:
            Scores, and new rows: as long as those given, or longer where they grow and the tokens had no room.
        """
        ...

    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """Scores of the library's own forward pass over a text, from nothing and without any cache: the judge."""
        ...
