"""RWKV-4, read on from rows over the library's weights: its weighted sums of values as one scan, from any state.

    num_t = e^w num_{t−1} + e^{k_t} v_t,   den_t = e^w den_{t−1} + e^{k_t},   both in units of exp(m_t)
    output_t = (num_{t−1} + e^{u + k_t} v_t) / (den_{t−1} + e^{u + k_t})

The library loops over tokens and writes into the state it is given. It also halves activations and weights every few
layers (``rescale_every``) so that FP16 does not overflow. That is undone here: it was no part of training, and it lets
the ε of the layer norms weigh more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import PretrainedConfig

from precog.backbones.hosted.runtime import RowShape
from precog.backbones.huggingface.causal import CausalModel, part, weight_of
from precog.state import Scaled

NOTHING = -1e30  # m of a sum over no token; finite, so that differences of two stay numbers


@dataclass(frozen=True)
class _Attention:
    norm: nn.Module
    key: nn.Module
    value: nn.Module
    receptance: nn.Module
    output: nn.Module
    decay: Tensor
    first: Tensor
    mix_key: Tensor
    mix_value: Tensor
    mix_receptance: Tensor

    @classmethod
    def of(cls, block: nn.Module) -> "_Attention":
        own = part(block, "attention")
        return cls(
            norm=part(block, "ln1"),
            key=part(own, "key"),
            value=part(own, "value"),
            receptance=part(own, "receptance"),
            output=part(own, "output"),
            decay=weight_of(own, "time_decay"),
            first=weight_of(own, "time_first"),
            mix_key=weight_of(own, "time_mix_key"),
            mix_value=weight_of(own, "time_mix_value"),
            mix_receptance=weight_of(own, "time_mix_receptance"),
        )


@dataclass(frozen=True)
class _FeedForward:
    norm: nn.Module
    key: nn.Module
    value: nn.Module
    receptance: nn.Module
    mix_key: Tensor
    mix_receptance: Tensor

    @classmethod
    def of(cls, block: nn.Module) -> "_FeedForward":
        own = part(block, "feed_forward")
        return cls(
            norm=part(block, "ln2"),
            key=part(own, "key"),
            value=part(own, "value"),
            receptance=part(own, "receptance"),
            mix_key=weight_of(own, "time_mix_key"),
            mix_receptance=weight_of(own, "time_mix_receptance"),
        )


class RwkvRuntime(CausalModel):
    """An RWKV-4 of the library.

    A row is the last input of the attention and of the feed-forward layer (D reals each: the token shift), then num,
    den and m (A each). A den of zero, as in a layer left out of a store, means that nothing was read.
    """

    def __init__(self, model: nn.Module, config: PretrainedConfig) -> None:
        super().__init__(model, head="head")
        body = part(model, "rwkv")
        _undo_rescaling(body, config)
        self._embeddings, self._norm = part(body, "embeddings"), part(body, "ln_out")
        blocks = list(part(body, "blocks").children())
        self._first_norm = part(blocks[0], "pre_ln")
        self._layers = [(_Attention.of(block), _FeedForward.of(block)) for block in blocks]
        width = weight_of(self._embeddings).shape[1]
        inner = self._layers[0][0].decay.shape[0]
        sums = 2 * width
        self._sizes = (width, width, inner, inner, inner)
        self.shape = RowShape(
            layers=len(blocks),
            reals=sums + 3 * inner,
            window=(0, sums),
            scaled=(
                Scaled(sums, sums + inner, sums + 2 * inner),
                Scaled(sums + inner, sums + 2 * inner, sums + 2 * inner),
            ),
        )

    def empty(self) -> Float[Tensor, "L S"]:
        """Zeros, and an m below that of any token."""
        rows = torch.zeros(self.shape.layers, self.shape.reals)
        rows[:, -self._sizes[-1] :] = NOTHING
        return rows

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
        hidden: Tensor = self._first_norm(self._embeddings(tokens))
        made = []
        for (attention, feed_forward), row in zip(self._layers, rows, strict=True):
            last_input, last_fed, num, den, top = row.float().split(self._sizes, dim=-1)
            x = attention.norm(hidden)
            mixed, sums = _attend(attention, x, last_input, (num, den, top))
            hidden = hidden + mixed
            y = feed_forward.norm(hidden)
            hidden = hidden + _feed(feed_forward, y, last_fed)
            made.append(torch.cat((x[:, -1].float(), y[:, -1].float(), *sums), dim=-1))
        return self._scores(self._norm(hidden if every else hidden[:, -1:])), torch.stack(made)


def _undo_rescaling(body: nn.Module, config: PretrainedConfig) -> None:
    every = int(config.rescale_every)
    if every > 0 and getattr(body, "layers_are_rescaled", False):
        for place, block in enumerate(part(body, "blocks").children()):
            for name in ("attention.output.weight", "feed_forward.value.weight"):
                weight_of(block, name).data.mul_(2 ** (place // every))
    for known in (config, body.config, *(block.config for block in part(body, "blocks").children())):
        known.rescale_every = 0


def _shifted(x: Tensor, last: Tensor) -> Tensor:
    return torch.cat((last[:, None].to(x.dtype), x[:, :-1]), dim=1)


def _mixed(x: Tensor, before: Tensor, share: Tensor) -> Tensor:
    return x * share + before * (1 - share)


def _attend(
    layer: _Attention, x: Tensor, last: Tensor, sums: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    before = _shifted(x, last)
    key, value = layer.key(_mixed(x, before, layer.mix_key)), layer.value(_mixed(x, before, layer.mix_value))
    receptance = layer.receptance(_mixed(x, before, layer.mix_receptance)).sigmoid()
    wkv, sums = weighted_values(key.float(), value.float(), -layer.decay.float().exp(), layer.first.float(), *sums)
    mixed: Tensor = layer.output(receptance * wkv.to(receptance.dtype))
    return mixed, sums


def _feed(layer: _FeedForward, x: Tensor, last: Tensor) -> Tensor:
    before = _shifted(x, last)
    key = layer.key(_mixed(x, before, layer.mix_key)).relu().square()
    receptance = layer.receptance(_mixed(x, before, layer.mix_receptance)).sigmoid()
    fed: Tensor = receptance * layer.value(key)
    return fed


def weighted_values(
    key: Float[Tensor, "B T A"],
    value: Float[Tensor, "B T A"],
    decay: Float[Tensor, " A"],
    first: Float[Tensor, " A"],
    num: Float[Tensor, "B A"],
    den: Float[Tensor, "B A"],
    top: Float[Tensor, "B A"],
) -> tuple[Float[Tensor, "B T A"], tuple[Float[Tensor, "B A"], Float[Tensor, "B A"], Float[Tensor, "B A"]]]:
    """The output of every token, and the sums after the last.

    The scan doubles its reach log2(T) times (Hillis and Steele), each partial sum in units of its own largest term.

    Args:
        key: k.
        value: v.
        decay: w, negative, of each channel.
        first: u, the bonus of a token to itself.
        num: Σ e^k v before the first token, in units of exp(top).
        den: Σ e^k, likewise.
        top: m.
    """
    top = torch.where(den == 0, NOTHING, top)
    nums = torch.cat((num[:, None], value), dim=1)
    dens = torch.cat((den[:, None], torch.ones_like(value)), dim=1)
    tops = torch.cat((top[:, None], key), dim=1)
    reach = 1
    while reach < tops.shape[1]:
        earlier = tops[:, :-reach] + reach * decay
        largest = torch.maximum(tops[:, reach:], earlier)
        new, old = (tops[:, reach:] - largest).exp(), (earlier - largest).exp()
        nums = torch.cat((nums[:, :reach], new * nums[:, reach:] + old * nums[:, :-reach]), dim=1)
        dens = torch.cat((dens[:, :reach], new * dens[:, reach:] + old * dens[:, :-reach]), dim=1)
        tops = torch.cat((tops[:, :reach], largest), dim=1)
        reach *= 2
    itself = key + first
    largest = torch.maximum(tops[:, :-1], itself)
    before, now = (tops[:, :-1] - largest).exp(), (itself - largest).exp()
    output = (before * nums[:, :-1] + now * value) / (before * dens[:, :-1] + now)
    return output, (nums[:, -1], dens[:, -1], tops[:, -1])
