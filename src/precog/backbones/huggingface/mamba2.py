"""Mamba-2, read on from rows over the library's weights: chunks of its state-space dual form, from any state.

    h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_tᵀ,    y_t = C_t h_t + D x_t        (one scalar A per head)

The library's cache would do for many tokens, but not exactly: its one-token step leaves out the clamp of Δ
(``time_step_limit``) that its pass over many tokens applies, and the cache's interface changed three times.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.huggingface.causal import CausalModel, bias_of, part, weight_of
from precog.ops.segment import segment_sums

CHUNK_TOKENS = 64


@dataclass(frozen=True)
class _Layer:
    norm: nn.Module
    in_proj: nn.Module
    conv: nn.Module
    activation: nn.Module
    gated_norm: nn.Module
    out_proj: nn.Module
    dt_bias: Tensor
    a_log: Tensor
    skip: Tensor

    @classmethod
    def of(cls, block: nn.Module) -> "_Layer":
        mixer = part(block, "mixer")
        return cls(
            norm=part(block, "norm"),
            in_proj=part(mixer, "in_proj"),
            conv=part(mixer, "conv1d"),
            activation=part(mixer, "act"),
            gated_norm=part(mixer, "norm"),
            out_proj=part(mixer, "out_proj"),
            dt_bias=weight_of(mixer, "dt_bias"),
            a_log=weight_of(mixer, "A_log"),
            skip=weight_of(mixer, "D"),
        )


class Mamba2Runtime(CausalModel):
    """A Mamba-2 of the library.

    A row is the last K − 1 inputs of the convolution, [conv_dim, K − 1] with the oldest first, then h, [heads, P, N].
    """

    def __init__(self, model: nn.Module, config: PretrainedConfig) -> None:
        super().__init__(model)
        self._embeddings = part(model, "backbone.embeddings")
        self._norm = part(model, "backbone.norm_f")
        self._layers = [_Layer.of(block) for block in part(model, "backbone.layers").children()]
        self._heads, self._head_dim = int(config.num_heads), int(config.head_dim)
        self._groups, self._state_size = int(config.n_groups), int(config.state_size)
        self._residual = torch.float32 if config.residual_in_fp32 else self.dtype
        self._limit = (float(config.time_step_limit[0]), float(config.time_step_limit[1]))
        self._inner = self._heads * self._head_dim
        self._window = (self._inner + 2 * self._groups * self._state_size, int(config.conv_kernel) - 1)
        inputs = self._window[0] * self._window[1]
        self.shape = RowShape(
            layers=len(self._layers), reals=inputs + self._inner * self._state_size, window=(0, inputs)
        )

    @torch.no_grad()
    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        rows: Float[Tensor, "L B S"],
        num_tokens: Sequence[int],
        *,
        every: bool,
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S"]]:
        """Read tokens from rows, all at once; how many were read before does not matter to the model."""
        hidden: Tensor = self._embeddings(tokens)
        made = []
        for layer, row in zip(self._layers, rows, strict=True):
            mixed, new = self._mix(layer, layer.norm(hidden.to(self.dtype)), row.float())
            hidden = hidden.to(self._residual) + mixed
            made.append(new)
        return self._scores(self._norm(hidden if every else hidden[:, -1:])), torch.stack(made)

    def _mix(self, layer: _Layer, x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, _ = x.shape
        channels, before = self._window
        start, stop = self.shape.window
        gate, inputs, dt = layer.in_proj(x).split((self._inner, channels, self._heads), dim=-1)
        window = row[:, start:stop].view(batch, channels, before).to(inputs.dtype)
        joined = torch.cat((window, inputs.transpose(1, 2)), dim=-1)
        convolved = F.conv1d(joined, weight_of(layer.conv), bias_of(layer.conv), groups=channels)
        bc = self._groups * self._state_size
        value, b, c = layer.activation(convolved).transpose(1, 2).float().split((self._inner, bc, bc), dim=-1)
        value = value.view(batch, length, self._heads, self._head_dim)
        dt = F.softplus(dt.float() + layer.dt_bias.float()).clamp(*self._limit)
        scanned, memory = scan(
            value,
            dt,
            -layer.a_log.float().exp(),
            b.view(batch, length, self._groups, self._state_size),
            c.view(batch, length, self._groups, self._state_size),
            row[:, stop:].view(batch, self._heads, self._head_dim, self._state_size),
        )
        scanned = scanned + layer.skip.float()[:, None] * value
        mixed: Tensor = layer.out_proj(layer.gated_norm(scanned.flatten(2), gate).to(x.dtype))
        kept = joined[..., length:].float()
        return mixed, torch.cat((kept.flatten(1), memory.flatten(1)), dim=1)


def scan(
    x: Float[Tensor, "B T H P"],
    dt: Float[Tensor, "B T H"],
    a: Float[Tensor, " H"],
    b: Float[Tensor, "B T G N"],
    c: Float[Tensor, "B T G N"],
    initial: Float[Tensor, "B H P N"],
) -> tuple[Float[Tensor, "B T H P"], Float[Tensor, "B H P N"]]:
    """C_t h_t of every token and the last h, chunk by chunk: inside a chunk as attention, between chunks as a state.

    Args:
        x: what is written.
        dt: Δ, how strongly, and how fast what was there fades.
        a: A of each head, negative.
        b: where it is written; H / G heads share one.
        c: where it is read.
        initial: h before the first token.
    """
    memory, parts, shared = initial, [], x.shape[2] // b.shape[2]
    for start in range(0, x.shape[1], CHUNK_TOKENS):
        here = slice(start, start + CHUNK_TOKENS)
        steps = (dt[:, here] * a).transpose(1, 2)
        written = x[:, here] * dt[:, here, :, None]
        keys = b[:, here].repeat_interleave(shared, dim=2)
        queries = c[:, here].repeat_interleave(shared, dim=2)
        decays = segment_sums(steps).exp()
        meeting = torch.einsum("bthn,bshn->bhts", queries, keys) * decays
        inside = torch.einsum("bhts,bshp->bthp", meeting, written)
        faded = steps.cumsum(-1).exp()
        before = torch.einsum("bthn,bhpn,bht->bthp", queries, memory, faded)
        parts.append(inside + before)
        added = torch.einsum("bhs,bshp,bshn->bhpn", decays[:, :, -1], written, keys)
        memory = faded[:, :, -1, None, None] * memory + added
    return torch.cat(parts, dim=1), memory
