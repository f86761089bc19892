"""TENNs-LLM: embeddings, a stack of blocks, logits; every state is an argument and a result.

The module knows token ids and tensors. It does not know which continuation is legal (the backbone does), nor what a
chunk, a question or a file is.
"""

import dataclasses
from typing import cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from precog.backbones.tenns.block import Linear, RmsNorm, TennsBlock
from precog.backbones.tenns.config import TennsConfig

BOUNDARY_ID = 1  # <s> opens every segment: chunk, question, turn


@dataclasses.dataclass(frozen=True)
class Pass:
    """What one pass over tokens leaves behind.

    Attributes:
        hidden: [B, T, d] after the last norm; ``TennsModel.logits`` turns it into scores.
        state: [L, B, S] recurrent state at each row's own end, FP32 (or FP64).
        tail: [L, B, kernel − 1, N] convolution inputs at each row's own end, oldest first; zeros before the segment.
        decay_time: [L, B, g] τ = Σ_t Δ_t, the time that has passed for each timescale group.
    """

    hidden: Float[Tensor, "B T d"]
    state: Float[Tensor, "L B S"]
    tail: Float[Tensor, "L B J N"]
    decay_time: Float[Tensor, "L B g"]


class TennsModel(nn.Module):
    """The network of paper §3."""

    def __init__(self, config: TennsConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(TennsBlock(config) for _ in range(config.layers))
        self.norm = RmsNorm(config.width)
        self.head = None if config.tied else Linear(config.width, config.vocabulary, bias=False)
        if self.head is not None:
            nn.init.normal_(self.head.weight, std=0.02)
        self.recompute = False  # trade compute for memory in training: recompute blocks in the backward pass

    def logits(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """Scores of the next token, in the dtype of ``hidden``."""
        if self.head is not None:
            scores: Tensor = self.head(hidden)
            return scores
        return functional.linear(hidden, self.embedding.weight.to(hidden.dtype))

    def scores(self, hidden: Float[Tensor, "*any d"], token_ids: Int64[Tensor, " n"]) -> Float[Tensor, "*any n"]:
        """Scores of some tokens only: n rows of the head instead of V."""
        head = self.embedding.weight if self.head is None else self.head.weight
        return functional.linear(hidden, head[token_ids].to(hidden.dtype))

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        state: Float[Tensor, "L B S"] | None = None,
        tail: Float[Tensor, "L B J N"] | None = None,
        lengths: Int64[Tensor, " B"] | None = None,
        resets: Bool[Tensor, "B T"] | None = None,
        dtype: torch.dtype | None = None,
    ) -> Pass:
        """Read tokens from a state, in one parallel pass.

        Args:
            tokens: token ids; rows shorter than T are right-padded with anything.
            state: recurrent state before the first token; zero when None.
            tail: convolution inputs before the first token; None at a boundary.
            lengths: valid tokens of each row; all T when None. Padded tokens change nothing.
            resets: True where the recurrent state starts anew (document mask of the data loader).
            dtype: compute dtype; that of the embedding when None.
        """
        x = self.embedding(tokens)
        if dtype is not None:
            x = x.to(dtype)
        segments = None
        # reading one segment from nothing, the window has nothing to cross: half the convolution's time is its mask
        alone = tail is None and not torch.is_grad_enabled() and not (tokens[:, 1:] == BOUNDARY_ID).any()
        if self.config.conv_boundary == "segment" and not alone:
            segments = (tokens == BOUNDARY_ID).cumsum(1)
        valid = None
        if lengths is not None:
            valid = torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]
        states, tails, times = [], [], []
        for i, block in enumerate(self.blocks):
            arguments = (
                x,
                None if state is None else state[i],
                None if tail is None else tail[i],
                segments,
                valid,
                resets,
            )
            if self.recompute and torch.is_grad_enabled():
                x, after, inputs, dt = checkpoint(block, *arguments, use_reentrant=False)
            else:
                x, after, inputs, dt = block(*arguments)
            states.append(after)
            tails.append(self._tail(inputs, None if tail is None else tail[i], segments, lengths))
            times.append(dt.sum(1))
        return Pass(self.norm(x), torch.stack(states), torch.stack(tails), torch.stack(times))

    def _tail(self, inputs: Tensor, before: Tensor | None, segments: Tensor | None, lengths: Tensor | None) -> Tensor:
        """The last kernel − 1 convolution inputs of each row that belong to the row's last segment."""
        reach = self.config.kernel - 1
        rows, length, inner = inputs.shape
        ends = torch.full((rows,), length, device=inputs.device) if lengths is None else lengths
        index = ends[:, None] + torch.arange(reach, device=inputs.device)[None]
        place = (index - reach)[..., None].expand(-1, -1, inner)  # below zero: before the first token
        tail = inputs.gather(1, place.clamp(min=0))
        if before is None:
            tail = tail.masked_fill(place < 0, 0.0)
        else:
            earlier = before.to(inputs.dtype).gather(1, (place + reach).clamp(max=reach - 1))
            tail = torch.where(place < 0, earlier, tail)
        if segments is not None:
            labels = functional.pad(segments, (reach, 0))
            last = labels.gather(1, (ends + reach - 1)[:, None])
            tail = tail * (labels.gather(1, index) == last)[..., None].to(tail.dtype)
        return tail

    def drop(self, share: float) -> None:
        """Drop a share, 0 ≤ share < 1, of what every block adds to the residual stream, in training."""
        for block in self.blocks:
            cast(TennsBlock, block).dropout = share

    def num_parameters(self) -> int:
        """Parameters, tied ones once."""
        return sum(p.numel() for p in self.parameters())

    def flops_per_token(self) -> int:
        """Multiply–adds times two that one token's matrix products need, logits included; the recurrence excluded."""
        matrices = sum(m.weight.numel() for m in self.modules() if isinstance(m, Linear))
        if self.head is None:
            matrices += self.embedding.weight.numel()
        return 2 * matrices


def build(config: TennsConfig, seed: int = 0) -> TennsModel:
    """A randomly initialised model; the same seed gives the same weights on every machine."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TennsModel(config)
