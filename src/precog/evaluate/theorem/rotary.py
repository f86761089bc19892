"""A small transformer of the Llama family, with a cache of keys and values that can be taken apart and moved.

RMSNorm, grouped-query attention with rotary positions, SwiGLU, random weights; the arithmetic is that of
``LlamaForCausalLM``, to which the tests compare it. It is here because what is to be shown of a rotary cache (ERRATA 8)
needs keys before and after their rotation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class RotaryConfig:
    """Shape of a transformer.

    Attributes:
        width: reals of a token's residual stream.
        layers: number of blocks.
        heads, shared: query heads, and heads of keys and values that they share.
        hidden: width of the SwiGLU.
        vocabulary: number of token ids.
        base: of the rotation's frequencies, base^(−2i / D).
        epsilon: of the norms.
    """

    width: int = 64
    layers: int = 4
    heads: int = 4
    shared: int = 2
    hidden: int = 128
    vocabulary: int = 256
    base: float = 10000.0
    epsilon: float = 1e-6

    @property
    def head_reals(self) -> int:
        """D, reals of a head."""
        return self.width // self.heads


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys, rotated to their positions, and values of every layer.

    Attributes:
        keys, values: of the tokens read, by layer, head and token.
    """

    keys: Float[Tensor, "L G T D"]
    values: Float[Tensor, "L G T D"]

    @property
    def num_tokens(self) -> int:
        """Tokens it holds."""
        return self.keys.shape[2]

    def followed_by(self, other: "Cache") -> "Cache":
        """Both, this one's tokens first; nobody's positions change."""
        return Cache(torch.cat((self.keys, other.keys), dim=2), torch.cat((self.values, other.values), dim=2))

    def moved(self, shift: int, base: float) -> "Cache":
        """Keys turned on by a number of positions: what they would be had their tokens, otherwise alike, stood there.

        Rotations add up, so that R(p + τ) k = R(τ) R(p) k.
        """
        positions = torch.full((self.num_tokens,), shift)
        return Cache(rotated(self.keys, positions, base), self.values)

    def after(self, start: int) -> "Cache":
        """The part from a token on."""
        return Cache(self.keys[:, :, start:], self.values[:, :, start:])


def rotated(x: Float[Tensor, "*any T D"], positions: Int64[Tensor, " T"], base: float) -> Float[Tensor, "*any T D"]:
    """Pairs (i, i + D/2) turned by position · base^(−2i / D), as Llama pairs them."""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = positions.double()[:, None] * rates
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class RotaryTransformer:
    """A causal transformer with weights drawn from a seed.

    Attributes:
        config: its shape.
        weights: FP32 tensors by the names that Llama checkpoints give them.
    """

    def __init__(self, config: RotaryConfig, seed: int = 0) -> None:
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        self.weights: dict[str, Tensor] = {}

        def draw(name: str, rows: int, columns: int) -> None:
            weight = torch.randn(rows, columns, generator=generator) / math.sqrt(columns)
            self.weights[f"{name}.weight"] = weight

        size, shared = config.heads * config.head_reals, config.shared * config.head_reals
        draw("model.embed_tokens", config.vocabulary, config.width)
        for i in range(config.layers):
            at = f"model.layers.{i}"
            for name, rows in (("q", size), ("k", shared), ("v", shared)):
                draw(f"{at}.self_attn.{name}_proj", rows, config.width)
            draw(f"{at}.self_attn.o_proj", config.width, size)
            draw(f"{at}.mlp.gate_proj", config.hidden, config.width)
            draw(f"{at}.mlp.up_proj", config.hidden, config.width)
            draw(f"{at}.mlp.down_proj", config.width, config.hidden)
            for name in ("input_layernorm", "post_attention_layernorm"):
                self.weights[f"{at}.{name}.weight"] = torch.ones(config.width)
        self.weights["model.norm.weight"] = torch.ones(config.width)
        draw("lm_head", config.vocabulary, config.width)

    def read(
        self, tokens: Sequence[int], start: int = 0, cache: Cache | None = None
    ) -> tuple[Float[Tensor, "T V"], Cache]:
        """Read tokens at positions start, start + 1, … behind what a cache holds.

        Returns:
            The logits after every token, and the cache with the tokens' keys and values added.
        """
        config, count = self.config, len(tokens)
        positions = torch.arange(start, start + count)
        held = 0 if cache is None else cache.num_tokens
        mask = torch.ones(count, held + count, dtype=torch.bool).tril(held)
        x = self.weights["model.embed_tokens.weight"][list(tokens)]
        all_keys, all_values = [], []
        for i in range(config.layers):
            at = f"model.layers.{i}"
            normed = self._norm(x, f"{at}.input_layernorm")
            query, keys, values = (
                self._linear(normed, f"{at}.self_attn.{name}_proj").view(count, -1, config.head_reals).transpose(0, 1)
                for name in "qkv"
            )
            query, keys = rotated(query, positions, config.base), rotated(keys, positions, config.base)
            if cache is not None:
                keys, values = torch.cat((cache.keys[i], keys), dim=1), torch.cat((cache.values[i], values), dim=1)
            x = x + self._linear(self._attend(query, keys, values, mask), f"{at}.self_attn.o_proj")
            normed = self._norm(x, f"{at}.post_attention_layernorm")
            gated = functional.silu(self._linear(normed, f"{at}.mlp.gate_proj"))
            x = x + self._linear(gated * self._linear(normed, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
            all_keys.append(keys)
            all_values.append(values)
        logits = self._linear(self._norm(x, "model.norm"), "lm_head")
        return logits, Cache(torch.stack(all_keys), torch.stack(all_values))

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        repeats = self.config.heads // self.config.shared
        keys, values = keys.repeat_interleave(repeats, dim=0), values.repeat_interleave(repeats, dim=0)
        scores = query @ keys.transpose(1, 2) / math.sqrt(self.config.head_reals)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return (weights @ values).transpose(0, 1).flatten(1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config.epsilon)
        return x * scale * self.weights[f"{name}.weight"]
