"""RecurrentGemma, read on from rows over the library's weights: gated linear units and attention over a window.

    h_t = a_t h_{t−1} + √(1 − a_t²) i_t x_t,    a_t = exp(−8 r_t softplus(λ)),    h_1 = i_1 x_1

The library keeps these states on its modules, where the requests of two threads meet, and forgets the convolution's
inputs when it reads several tokens from a state. Here everything is in the row, the window of attention included:
keys are kept as they are before rotation, so that a row is bound to no position and does not grow with the text.
Slot by slot, a mean of two windows would mix tokens that have nothing to do with each other: such rows do not average.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.huggingface.causal import CausalModel, bias_of, part, weight_of

GATE_POWER = 8.0


@dataclass(frozen=True)
class _Frame:
    norm: nn.Module
    channel_norm: nn.Module
    mlp: nn.Module

    @classmethod
    def of(cls, block: nn.Module) -> "_Frame":
        return cls(*(part(block, name) for name in ("temporal_pre_norm", "channel_pre_norm", "mlp_block")))


@dataclass(frozen=True)
class _Recurrence:
    branch: nn.Module
    activation: nn.Module
    inputs: nn.Module
    output: nn.Module
    conv: nn.Module
    decay: Tensor
    input_gate: tuple[Tensor, Tensor]
    decay_gate: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, block: nn.Module) -> "_Recurrence":
        unit = part(block, "rg_lru")
        return cls(
            branch=part(block, "linear_y"),
            activation=part(block, "act_fn"),
            inputs=part(block, "linear_x"),
            output=part(block, "linear_out"),
            conv=part(block, "conv_1d"),
            decay=weight_of(unit, "recurrent_param"),
            input_gate=(weight_of(unit, "input_gate_weight"), weight_of(unit, "input_gate_bias")),
            decay_gate=(weight_of(unit, "recurrent_gate_weight"), weight_of(unit, "recurrent_gate_bias")),
        )

    @property
    def window(self) -> tuple[int, int]:
        """Channels and inputs that the convolution looks back on."""
        channels, _, kernel = weight_of(self.conv).shape
        return channels, kernel - 1

    @property
    def reals(self) -> int:
        """Reals of a row: the convolution's last inputs, [channels, K − 1], then h."""
        channels, before = self.window
        return channels * (before + 1)


@dataclass(frozen=True)
class _Attention:
    query: nn.Module
    key: nn.Module
    value: nn.Module
    output: nn.Module
    rotary: nn.Module
    heads: int
    key_heads: int
    before: int  # tokens that a query sees beside its own

    @classmethod
    def of(cls, block: nn.Module, config: PretrainedConfig) -> "_Attention":
        return cls(
            query=part(block, "q_proj"),
            key=part(block, "k_proj"),
            value=part(block, "v_proj"),
            output=part(block, "o_proj"),
            rotary=part(block, "rotary_emb"),
            heads=int(config.num_attention_heads),
            key_heads=int(config.num_key_value_heads),
            before=int(config.attention_window_size) - 1,
        )

    @property
    def head_dim(self) -> int:
        """Reals of a key."""
        return weight_of(self.key).shape[0] // self.key_heads

    @property
    def reals(self) -> int:
        """Reals of a row: keys and values, [2, heads of keys, W − 1, head_dim], the newest last."""
        return 2 * self.key_heads * self.before * self.head_dim


class RecurrentGemmaRuntime(CausalModel):
    """A RecurrentGemma of the library: rows of recurrent layers and of attention layers differ in length.

    Zeros mean that nothing was read: a row of a recurrence, a slot of a window. How many slots can be filled at most
    follows from the tokens that were read, so that what a codec's rounding leaves in an empty one is not heard.
    """

    def __init__(self, model: nn.Module, config: PretrainedConfig) -> None:
        super().__init__(model)
        self._judging = threading.Lock()
        self._embeddings, self._norm = part(model, "model.embed_tokens"), part(model, "model.final_norm")
        self._scale = model.get_buffer("model.normalizer")
        self._cap = float(config.logits_soft_cap)
        blocks = list(part(model, "model.layers").children())
        self._frames = [_Frame.of(block) for block in blocks]
        mixers = [part(block, "temporal_block") for block in blocks]
        self._mixers = [
            _Recurrence.of(mixer) if hasattr(mixer, "rg_lru") else _Attention.of(mixer, config) for mixer in mixers
        ]
        self._stateful = [mixer for mixer in mixers if hasattr(mixer, "rg_lru")]
        reals = tuple(mixer.reals for mixer in self._mixers)
        self.shape = RowShape(layers=len(reals), reals=max(reals), layer_reals=reals, averages=False)

    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """As of every model; one at a time, since the library writes on its modules, and what it leaves is removed."""
        with self._judging:
            scores = super().one_pass(tokens)
            for mixer in self._stateful:
                mixer.__dict__["conv1d_state"] = None
                part(mixer, "rg_lru").__dict__["recurrent_states"] = None
            return scores

    @torch.no_grad()
    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        rows: Float[Tensor, "L B S"],
        num_tokens: Sequence[int],
        *,
        every: bool,
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S"]]:
        """Read tokens from rows, all at once; the tokens read before say how much of each window is filled."""
        hidden: Tensor = self._embeddings(tokens)
        hidden = hidden * self._scale.to(hidden.dtype)
        counts, longest = torch.tensor(list(num_tokens), device=hidden.device), max(num_tokens)
        made = torch.zeros_like(rows, dtype=torch.float32)
        for place, (frame, mixer) in enumerate(zip(self._frames, self._mixers, strict=True)):
            row = rows[place, :, : mixer.reals].float()
            x = frame.norm(hidden)
            if isinstance(mixer, _Recurrence):
                mixed, new = _recur(mixer, x, row)
            else:
                mixed, new = _attend(mixer, x, row, counts, longest)
            made[place, :, : mixer.reals] = new
            hidden = hidden + mixed
            hidden = hidden + frame.mlp(frame.channel_norm(hidden))
        scores = self._scores(self._norm(hidden if every else hidden[:, -1:]))
        return self._cap * torch.tanh(scores / self._cap), made


def _recur(layer: _Recurrence, x: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    batch, length, _ = x.shape
    channels, before = layer.window
    window = row[:, : channels * before].view(batch, channels, before).to(x.dtype)
    joined = torch.cat((window, layer.inputs(x).transpose(1, 2)), dim=-1)
    inputs = F.conv1d(joined, weight_of(layer.conv), bias_of(layer.conv), groups=channels).transpose(1, 2)
    writing, fading = (_gate(inputs, *gate) for gate in (layer.input_gate, layer.decay_gate))
    log_decay = (-GATE_POWER * fading * F.softplus(layer.decay)).float()
    scale = (1 - (2 * log_decay).exp()).sqrt()
    scale[:, 0] = torch.where(row.any(-1, keepdim=True), scale[:, 0], 1)
    read = linear_scan(log_decay.exp(), (inputs * writing).float() * scale, row[:, channels * before :])
    mixed: Tensor = layer.output(read.to(x.dtype) * layer.activation(layer.branch(x)))
    return mixed, torch.cat((joined[..., length:].float().flatten(1), read[:, -1]), dim=1)


def _gate(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    blocks = x.view(*x.shape[:-1], weight.shape[0], weight.shape[1])
    return (torch.einsum("bthi,hij->bthj", blocks, weight) + bias).flatten(2).sigmoid()


def linear_scan(
    decay: Float[Tensor, "B T W"], drive: Float[Tensor, "B T W"], initial: Float[Tensor, "B W"]
) -> Float[Tensor, "B T W"]:
    """Every h_t = a_t h_{t−1} + u_t; the reach doubles log2(T) times (Hillis and Steele), and nothing is divided."""
    states = torch.cat(((decay[:, :1] * initial[:, None] + drive[:, :1]), drive[:, 1:]), dim=1)
    reach = 1
    while reach < states.shape[1]:
        joined = states[:, reach:] + decay[:, reach:] * states[:, :-reach]
        states = torch.cat((states[:, :reach], joined), dim=1)
        decay = torch.cat((decay[:, :reach], decay[:, reach:] * decay[:, :-reach]), dim=1)
        reach *= 2
    return states


def _attend(
    layer: _Attention, x: Tensor, row: Tensor, counts: Int64[Tensor, " B"], longest: int
) -> tuple[Tensor, Tensor]:
    batch, length, _ = x.shape
    kept = row.view(batch, 2, layer.key_heads, layer.before, layer.head_dim)
    query, key, value = (
        projection(x).view(batch, length, -1, layer.head_dim).transpose(1, 2)
        for projection in (layer.query, layer.key, layer.value)
    )
    joined = torch.cat((kept, torch.stack((key, value), dim=1).float()), dim=3)
    filled = min(longest, layer.before)  # empty slots stand in front
    seen = joined[:, :, :, layer.before - filled :].to(x.dtype)
    place = torch.arange(filled + length, device=x.device)
    cos, sin = layer.rotary(x, place[None])
    asking = place[filled:, None]
    near = (place <= asking) & (place >= asking - layer.before)
    real = place >= filled - counts.clamp(max=layer.before)[:, None]
    real[:, :filled] &= kept[:, :, :, layer.before - filled :].any(4).any(2).any(1)
    read = F.scaled_dot_product_attention(
        _rotated(query, cos[:, filled:], sin[:, filled:]),
        _shared(_rotated(seen[:, 0], cos, sin), layer),
        _shared(seen[:, 1], layer),
        attn_mask=(near & real[:, None])[:, None],
    )
    mixed: Tensor = layer.output(read.transpose(1, 2).flatten(2))
    return mixed, joined[:, :, :, length:].flatten(1)


def _shared(x: Tensor, layer: _Attention) -> Tensor:
    return x.repeat_interleave(layer.heads // layer.key_heads, dim=1)


def _rotated(x: Float[Tensor, "B h T d"], cos: Float[Tensor, "1 T r"], sin: Float[Tensor, "1 T r"]) -> Tensor:
    turning, still = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    first, second = turning.chunk(2, dim=-1)
    return torch.cat((turning * cos[:, None] + torch.cat((-second, first), dim=-1) * sin[:, None], still), dim=-1)
