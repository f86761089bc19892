"""A tiny RWKV-7 file of random weights, made on the spot: all tensors of a real one, in its shapes."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from precog.backbones.rwkv7.opening import VOCABULARY_SIZE


def tiny_tensors(
    seed: int = 0,
    *,
    layers: int = 2,
    heads: int = 2,
    head_size: int = 16,
    rank: int = 8,
    vocabulary: int = VOCABULARY_SIZE,
) -> dict[str, Tensor]:
    """Random weights by name, FP32, the same for the same seed.

    Args:
        seed: of the weights.
        layers: L.
        heads: H.
        head_size: N, 64 in published models.
        rank: of the low-rank parts.
        vocabulary: V.
    """
    generator = torch.Generator().manual_seed(seed)
    width = heads * head_size

    def normal(*shape: int, scale: float = 0.5, mean: float = 0.0) -> Tensor:
        return mean + scale * torch.randn(shape, generator=generator)

    def matrix(outputs: int, inputs: int) -> Tensor:
        return normal(outputs, inputs, scale=inputs**-0.5)

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": normal(width, scale=0.1, mean=1.0), f"{name}.bias": normal(width, scale=0.1)}

    tensors = {"emb.weight": matrix(vocabulary, width), **norm("blocks.0.ln0")}
    for layer in range(layers):
        block = f"blocks.{layer}."
        att, ffn = block + "att.", block + "ffn."
        tensors |= norm(block + "ln1") | norm(block + "ln2") | norm(att + "ln_x")
        for mix in (*(att + "x_" + name for name in "rwkvag"), ffn + "x_k"):
            tensors[mix] = torch.rand(1, 1, width, generator=generator)
        for lora in "wag" if layer == 0 else "wagv":
            tensors |= {f"{att}{lora}1": matrix(width, rank), f"{att}{lora}2": matrix(rank, width)}
            if lora != "g":
                tensors[f"{att}{lora}0"] = normal(1, 1, width)
        tensors |= {att + "k_k": normal(1, 1, width, mean=1.0), att + "k_a": normal(1, 1, width, scale=0.1, mean=1.0)}
        tensors[att + "r_k"] = normal(heads, head_size)
        tensors |= {f"{att}{name}.weight": matrix(width, width) for name in ("receptance", "key", "value", "output")}
        tensors |= {ffn + "key.weight": matrix(4 * width, width), ffn + "value.weight": matrix(width, 4 * width)}
    return tensors | norm("ln_out") | {"head.weight": matrix(vocabulary, width)}


def make(name: str, folder: Path, seed: int) -> Path:
    """Write ``NAME.safetensors`` of a seed's weights into a folder."""
    path = folder / f"{name}.safetensors"
    save_file(tiny_tensors(seed), path)
    return path
