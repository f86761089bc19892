"""xLSTM, read on from rows over the library's weights: its matrix memories chunk by chunk, from any state.

    C_t = f_t C_{t−1} + i_t k_t v_tᵀ,    n_t = f_t n_{t−1} + i_t k_t,    f = σ(f̃), i = e^ĩ,    both in units of exp(m_t)
    m_t = max(log f_t + m_{t−1}, ĩ_t),   h_t = C_tᵀ q_t / (max(|n_tᵀ q_t|, exp(−m_t)) + ε)

What a memory stands for is C exp(m) and n exp(m); m alone shows nowhere but in ε. It starts at 0, with C and n zero.
The library chunks 64 tokens and loops over the rest one by one, and its cache is BF16 unless told otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.huggingface.causal import CausalModel, part, weight_of
from precog.ops.segment import segment_sums
from precog.state import Scaled

CHUNK_TOKENS = 64
Memory = tuple[Float[Tensor, "B H K V"], Float[Tensor, "B H K"], Float[Tensor, "B H"]]


@dataclass(frozen=True)
class _Layer:
    norm: nn.Module
    projections: tuple[nn.Module, ...]  # q, k, v, o
    gates: tuple[nn.Module, ...]  # i, f
    head_norm: nn.Module
    output: nn.Module
    feed_forward_norm: nn.Module
    feed_forward: nn.Module

    @classmethod
    def of(cls, block: nn.Module, fused: bool) -> "_Layer":
        own = part(block, "mlstm_layer")
        projections = ("qkv_opreact",) if fused else ("q", "k", "v", "ogate_preact")
        gates = ("ifgate_preact",) if fused else ("igate_preact", "fgate_preact")
        return cls(
            norm=part(block, "norm_mlstm"),
            projections=tuple(part(own, name) for name in projections),
            gates=tuple(part(own, name) for name in gates),
            head_norm=part(own, "multihead_norm"),
            output=part(own, "out_proj"),
            feed_forward_norm=part(block, "norm_ffn"),
            feed_forward=part(block, "ffn"),
        )


class XlstmRuntime(CausalModel):
    """An xLSTM of the library.

    A row is C, [heads, K, V], n, [heads, K], and m, [heads]. Zeros mean that nothing was read.
    """

    def __init__(self, model: nn.Module, config: PretrainedConfig) -> None:
        super().__init__(model)
        self._embeddings = part(model, "backbone.embeddings")
        self._norm = part(model, "backbone.out_norm")
        fused = config.weight_mode == "fused"
        blocks = part(model, "backbone.blocks").children()
        self._layers = [_Layer.of(block, fused) for block in blocks]
        self._heads = int(config.num_heads)
        self._values = weight_of(self._layers[0].output).shape[1]
        projected = sum(weight_of(projection).shape[0] for projection in self._layers[0].projections)
        self._keys = projected // 2 - self._values
        self._gate_cap, self._score_cap = config.gate_soft_cap, config.output_logit_soft_cap
        self._eps = float(config.eps)
        keys, values = self._keys // self._heads, self._values // self._heads
        matrix, vector = self._heads * keys * values, self._heads * keys
        self._sizes = (matrix, vector, self._heads)
        self.shape = RowShape(
            layers=len(self._layers),
            reals=matrix + vector + self._heads,
            scaled=(
                Scaled(0, matrix, matrix + vector, repeat=keys * values),
                Scaled(matrix, matrix + vector, matrix + vector, repeat=keys),
            ),
        )

    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """As of every model; under autocast at BF16, where the library would multiply BF16 by FP32 and fail."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            return super().one_pass(tokens)

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
            mixed, new = self._mix(layer, layer.norm(hidden), row.float())
            hidden = hidden + mixed
            hidden = hidden + layer.feed_forward(layer.feed_forward_norm(hidden))
            made.append(new)
        scores = self._scores(self._norm(hidden if every else hidden[:, -1:]))
        return _capped(scores, self._score_cap), torch.stack(made)

    def _mix(self, layer: _Layer, x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, _ = x.shape
        projected = torch.cat([projection(x) for projection in layer.projections], dim=-1)
        *inputs, out_gate = torch.split(projected, [self._keys, self._keys, self._values, self._values], dim=-1)
        query, key, value = (each.float().view(batch, length, self._heads, -1).transpose(1, 2) for each in inputs)
        gates = _capped(torch.cat([gate(x) for gate in layer.gates], dim=-1), self._gate_cap)
        write, keep = torch.split(gates.float().transpose(1, 2), self._heads, dim=1)
        matrix, vector, top = torch.split(row, list(self._sizes), dim=-1)
        memory = (
            matrix.view(batch, self._heads, key.shape[-1], value.shape[-1]),
            vector.view(batch, self._heads, key.shape[-1]),
            top,
        )
        read, memory = matrix_memory(query * key.shape[-1] ** -0.5, key, value, write, keep, memory, self._eps)
        normed = layer.head_norm(read.transpose(1, 2).to(x.dtype)).reshape(batch, length, -1)
        mixed: Tensor = layer.output(out_gate.sigmoid() * normed)
        return mixed, torch.cat([each.flatten(1) for each in memory], dim=1)


def _capped(x: Tensor, cap: float | None) -> Tensor:
    return x if cap is None else cap * torch.tanh(x / cap)


def matrix_memory(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H T K"],
    value: Float[Tensor, "B H T V"],
    write: Float[Tensor, "B H T"],
    keep: Float[Tensor, "B H T"],
    memory: Memory,
    eps: float,
) -> tuple[Float[Tensor, "B H T V"], Memory]:
    """What every token reads, and the memory after the last: inside a chunk as attention, between chunks as a state.

    Args:
        query: q, already divided by √K.
        key: k.
        value: v.
        write: ĩ, the logarithm of the input gate.
        keep: f̃, the forget gate before its sigmoid.
        memory: C, n and m before the first token.
        eps: ε.
    """
    matrix, vector, top = memory
    parts = []
    for start in range(0, query.shape[2], CHUNK_TOKENS):
        here = slice(start, start + CHUNK_TOKENS)
        q, k, v = query[:, :, here], key[:, :, here], value[:, :, here]
        steps = F.logsigmoid(keep[:, :, here])
        within = segment_sums(steps) + write[:, :, None, here]
        before = steps.cumsum(-1) + top[..., None]
        tops = torch.maximum(within.amax(-1), before)
        weights, faded = (within - tops[..., None]).exp(), (before - tops).exp()[..., None]
        meeting = (q @ k.transpose(-1, -2)) * weights
        total = meeting.sum(-1, keepdim=True) + faded * (q @ vector[..., None])
        lowest = (-tops).exp()[..., None]
        parts.append((meeting @ v + faded * (q @ matrix)) / (torch.maximum(total.abs(), lowest) + eps))
        added = weights[:, :, -1, :, None] * k
        matrix = faded[:, :, -1, :, None] * matrix + added.transpose(-1, -2) @ v
        vector = faded[:, :, -1] * vector + added.sum(2)
        top = tops[..., -1]
    return torch.cat(parts, dim=2), (matrix, vector, top)
