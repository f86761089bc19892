"""Rows of hybrid models: how a cache of transformers is laid out as plain reals, and read back from them.

A layer's row is its recurrent state, then the last inputs of its convolution, then keys and values of the tokens read,
token by token, oldest first. So a row with room for more tokens is the same row with zeros behind it. Of the K inputs
that the library keeps for a kernel of K the oldest is never used again; it is not kept.
"""

from dataclasses import dataclass
from inspect import signature
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import CacheLayerMixin

from precog.errors import ModelError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """One tensor of fixed size, of every row of a batch.

    Attributes:
        index: which of its layer's states it is.
        shape: without the batch.
        dtype: that the library keeps it in.
    """

    index: int
    shape: Shape
    dtype: torch.dtype

    @property
    def reals(self) -> int:
        """How many reals it has."""
        return prod(self.shape)


@dataclass(frozen=True)
class LayerParts:
    """What one layer of the cache keeps.

    Attributes:
        layer: its number in the cache.
        recurrent: recurrent states.
        windows: last inputs of its convolutions.
        keys: heads and size of a key, (0, 0) without attention.
        values: heads and size of a value.
        dtype: of keys and values.
    """

    layer: int
    recurrent: tuple[Part, ...]
    windows: tuple[Part, ...]
    keys: tuple[int, int]
    values: tuple[int, int]
    dtype: torch.dtype

    @property
    def fixed_reals(self) -> int:
        """Reals that do not depend on how much was read."""
        return sum(part.reals for part in (*self.recurrent, *self.windows))

    @property
    def token_reals(self) -> int:
        """Reals that each token adds."""
        return prod(self.keys) + prod(self.values)

    def fill(self, cache: DynamicCache, row: Float[Tensor, "B S"], num_tokens: int) -> None:
        """Put copies of what a row holds into a fresh cache."""
        start = 0
        for part in self.recurrent:
            piece = row[:, start : start + part.reals].reshape(-1, *part.shape)
            cache.update_recurrent_state(piece.to(part.dtype, copy=True), self.layer, state_idx=part.index)
            start += part.reals
        for part in self.windows:
            piece = row[:, start : start + part.reals].reshape(-1, *part.shape)
            cache.update_conv_state(functional.pad(piece.to(part.dtype), (1, 0)), self.layer, state_idx=part.index)
            start += part.reals
        if self.token_reals and num_tokens:
            read = row[:, start : start + num_tokens * self.token_reals]
            read = read.reshape(-1, num_tokens, self.token_reals).to(self.dtype, copy=True)
            keys, values = torch.split(read, [prod(self.keys), prod(self.values)], dim=2)
            cache.update(self._heads(keys, self.keys), self._heads(values, self.values), self.layer)

    def _heads(self, flat: Tensor, shape: tuple[int, int]) -> Tensor:
        return flat.reshape(*flat.shape[:2], *shape).transpose(1, 2).contiguous()

    def write(self, cache: DynamicCache, row: Float[Tensor, "B S"]) -> None:
        """Put what a cache holds into a row of zeros."""
        kept = cache.layers[self.layer]
        flat = [kept.recurrent_states[part.index].flatten(1) for part in self.recurrent]
        flat += [kept.conv_states[part.index][..., 1:].flatten(1) for part in self.windows]
        if self.token_reals:
            keys, values = (kept.keys.transpose(1, 2), kept.values.transpose(1, 2))
            flat.append(torch.cat((keys.flatten(2), values.flatten(2)), dim=2).flatten(1))
        start = 0
        for piece in flat:
            row[:, start : start + piece.shape[1]] = piece
            start += piece.shape[1]


def cache_argument(model: nn.Module) -> str:
    """What the library calls the cache that a model is to read on from: renamed in release 5.24."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


@torch.no_grad()
def layer_parts(model: nn.Module, config: PretrainedConfig, device: torch.device) -> tuple[LayerParts, ...]:
    """What each layer that keeps a state keeps, found by letting the model read two tokens.

    Raises:
        ModelError: the model is no hybrid, or keeps a sliding window of keys, or something that is not known here.
    """
    cache = DynamicCache(config=config)
    if not any(isinstance(layer, CacheLayerMixin) for layer in cache.layers):
        raise ModelError("this hybrid has no attention, which its library cannot run", given=config.model_type)
    tokens = torch.zeros(1, 2, dtype=torch.int64, device=device)
    model(input_ids=tokens, use_cache=True, **{cache_argument(model): cache})
    found = []
    for number, layer in enumerate(cache.layers):
        if getattr(layer, "is_sliding", False):
            raise ModelError("attention over a sliding window is not supported", given=f"layer {number}")
        keys = getattr(layer, "keys", None)
        values = getattr(layer, "values", None)
        if keys is not None and keys.shape[2] != 2:
            raise ModelError("this layer's keys are not one per token", given=f"layer {number}: {tuple(keys.shape)}")
        parts = LayerParts(
            layer=number,
            recurrent=_parts(getattr(layer, "recurrent_states", {}), 0),
            windows=_parts(getattr(layer, "conv_states", {}), 1),
            keys=(0, 0) if keys is None else (keys.shape[1], keys.shape[3]),
            values=(0, 0) if values is None else (values.shape[1], values.shape[3]),
            dtype=torch.float32 if keys is None else keys.dtype,
        )
        if parts.fixed_reals or parts.token_reals:
            found.append(parts)
    if not any(parts.fixed_reals for parts in found):
        given = f"{config.model_type} of {len(found)} attention layers"
        raise ModelError("this model is a transformer: it has no recurrent state", given=given)
    return tuple(found)


def _parts(states: dict[int, Tensor | None], unused: int) -> tuple[Part, ...]:
    """The parts that are there, without columns that are never used."""
    return tuple(Part(i, (*t.shape[1:-1], t.shape[-1] - unused), t.dtype) for i, t in states.items() if t is not None)
