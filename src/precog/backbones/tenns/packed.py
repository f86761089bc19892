"""Matrices that stay packed in memory: INT4 and INT8 weights, BF16 inputs, FP32 sums, on the CPU.

A decoded token reads every weight once, so fewer bytes are fewer milliseconds: an INT4 model of 1.2 B parameters takes
0.65 GB instead of 4.8 GB. What is not a matrix product (norms, convolution, recurrence, residual stream) stays FP32.
The kernels are torch's own; a row's result does not depend on the other rows of its batch, but for the rounding of
scores that are far from the best.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from precog.backbones.card import ModelCard
from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.checkpoint import (
    NothingDrawn,
    empty_model,
    is_matrix,
    read_stored,
    scheme_of,
    unpack_checked,
)
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel
from precog.backbones.tenns.quantise import group_size, pack, pack4, unpack
from precog.errors import ModelError

_KERNEL_GROUPS = (256, 128, 64, 32)  # what torch's INT4 product knows
_ROWS, _COLUMNS = 16, 32  # its shapes are multiples of these; others are padded with zeros
_ALIGNMENT = 64
_MANY_ROWS, _BLOCK = 8, 2048  # from so many inputs on, the INT8 head is unpacked, so many of its rows at a time
_BEST = 16  # scores that are not left as BF16 rounds them
_INNER_TILES = 2  # of the packed layout; the CPU's ignores it

Stored = dict[str, Tensor]


class PackedLinear(nn.Module):
    """A linear map with stored weights: ``int4`` and ``int8`` stay packed, ``bf16`` stays BF16.

    Args:
        stored: what `pack` made of the matrix [out, in].
        scheme: how.
        bias: added in FP32, if any.
    """

    def __init__(self, stored: Stored, scheme: str, bias: Tensor | None = None) -> None:
        super().__init__()
        self.scheme = scheme.partition(":")[0]
        self.register_buffer("bias", bias, persistent=False)
        self.group = 0
        if self.scheme == "int4":
            nibbles, scale = stored[".int4"], stored[".scale"]
            self.out_features, self.in_features = nibbles.shape[0], 2 * nibbles.shape[1]
            q = torch.empty(self.out_features, self.in_features, dtype=torch.int32)
            q[:, 0::2] = nibbles & 15
            q[:, 1::2] = nibbles >> 4
            rows, columns = -self.out_features % _ROWS, -self.in_features % _COLUMNS
            if rows or columns:
                q = functional.pad(q, (0, columns, 0, rows), value=8)  # 8 stands for zero
            width = self.in_features + columns
            shared = self.in_features // scale.shape[1]
            self.group = next(size for size in _KERNEL_GROUPS if width % size == 0 and (shared % size == 0 or columns))
            spread = scale.repeat_interleave(shared, dim=1)[:, :: self.group]  # a scale for each of the kernel's groups
            spread = functional.pad(spread, (0, 0, 0, rows)).bfloat16().T
            packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q, _INNER_TILES)
            self.register_buffer("packed", packed, persistent=False)
            scales = torch.stack((spread, torch.zeros_like(spread)), dim=-1).contiguous()
            self.register_buffer("scales", scales, persistent=False)
        elif self.scheme == "int8":
            q, scale = stored[".int8"], stored[".scale"]
            self.out_features, self.in_features = q.shape
            rows, columns = -self.out_features % _ROWS, -self.in_features % _COLUMNS
            padded = functional.pad(q, (0, columns, 0, rows)) if rows or columns else _aligned(q)
            self.register_buffer("packed", padded, persistent=False)
            scales = functional.pad(scale[:, 0], (0, rows)).bfloat16()
            self.register_buffer("scales", scales, persistent=False)
        else:
            weight = stored[""].bfloat16()
            self.out_features, self.in_features = weight.shape
            self.register_buffer("packed", weight, persistent=False)

    packed: Tensor
    scales: Tensor
    bias: Tensor | None

    def forward(self, x: Float[Tensor, "*any i"]) -> Float[Tensor, "*any o"]:
        """Apply the map: inputs and results of the product are rounded to BF16, the dtype of ``x`` comes back."""
        flat = x.reshape(-1, self.in_features).bfloat16()
        if self.scheme == "bf16" or self.scheme == "fp32":
            out = functional.linear(flat, self.packed)
        else:
            if columns := -self.in_features % _COLUMNS:
                flat = functional.pad(flat, (0, columns))
            if self.scheme == "int4":
                out = torch.ops.aten._weight_int4pack_mm_for_cpu(flat, self.packed, self.group, self.scales)
            else:
                out = torch.ops.aten._weight_int8pack_mm(flat, self.packed, self.scales)
        out = out[:, : self.out_features].to(x.dtype)
        if self.bias is not None:
            out = out + self.bias.to(x.dtype)
        return out.reshape(*x.shape[:-1], self.out_features)

    def many(self, x: Float[Tensor, "*any i"]) -> Float[Tensor, "*any o"]:
        """The same up to rounding, for many inputs at once: to torch's INT8 product each is as dear as the first.

        Unpacked rows are exact in BF16, so that products are rounded once, before the scale instead of after it.
        """
        flat = x.reshape(-1, self.in_features).bfloat16()
        if self.scheme != "int8" or self.bias is not None or len(flat) < _MANY_ROWS:
            return self.forward(x)
        flat = functional.pad(flat, (0, -self.in_features % _COLUMNS))
        starts = range(0, len(self.packed), _BLOCK)
        blocks = [functional.linear(flat, self.packed[start : start + _BLOCK].bfloat16()) for start in starts]
        out = (torch.cat(blocks, dim=1).float() * self.scales.float())[:, : self.out_features]
        return out.to(x.dtype).reshape(*x.shape[:-1], self.out_features)


def _aligned(tensor: Tensor) -> Tensor:
    """The tensor where a vector load may begin: a mapped file starts tensors anywhere, and the INT8 kernel crashes."""
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor


class PackedEmbedding(nn.Module):
    """A table whose rows are unpacked when they are looked up."""

    def __init__(self, stored: Stored, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self._suffixes = tuple(stored)
        for number, part in enumerate(stored.values()):
            self.register_buffer(f"part{number}", part, persistent=False)

    def forward(self, tokens: Int64[Tensor, "*any"]) -> Float[Tensor, "*any d"]:
        """FP32 rows."""
        flat = tokens.flatten()
        parts = {suffix: self.get_buffer(f"part{i}")[flat] for i, suffix in enumerate(self._suffixes)}
        rows = unpack(parts, self.scheme)
        return rows.reshape(*tokens.shape, rows.shape[-1])


class PackedTenns(TennsModel):
    """A TENNs-LLM for inference whose matrices stay packed; everything else is FP32."""

    def __init__(self, config: TennsConfig) -> None:
        super().__init__(config)
        self._parameters_before = super().num_parameters()
        self._flops_before = super().flops_per_token()
        self.head_rows: nn.Module = nn.Identity()  # the head's rows, for the few that must not be rounded to BF16

    def logits(self, hidden: Float[Tensor, "*any d"]) -> Float[Tensor, "*any V"]:
        """Scores of the next token; those of the best ones are computed again from FP32 rows.

        Scores near 16 are 1/8 apart in BF16: rounding alone would decide between first and second choice.
        """
        assert isinstance(self.head, PackedLinear)
        scores = self.head.many(hidden)
        best = scores.topk(min(_BEST, scores.shape[-1]), dim=-1).indices
        exact = torch.einsum("...d,...nd->...n", hidden, self.head_rows(best).to(hidden.dtype))
        return scores.scatter(-1, best, exact)

    def scores(self, hidden: Float[Tensor, "*any d"], token_ids: Int64[Tensor, " n"]) -> Float[Tensor, "*any n"]:
        """Scores of some tokens only, from FP32 rows."""
        return functional.linear(hidden, self.head_rows(token_ids).to(hidden.dtype))

    def num_parameters(self) -> int:
        """Parameters of the unpacked model, tied ones once."""
        return self._parameters_before

    def flops_per_token(self) -> int:
        """As of the unpacked model."""
        return self._flops_before


def assemble(
    config: TennsConfig, quantisation: Mapping[str, str], take: Callable[[str, tuple[int, ...]], Stored]
) -> PackedTenns:
    """A packed model.

    Args:
        config: its shape.
        quantisation: schemes of ``matrices`` and ``embedding``.
        take: hands over the stored tensors of a weight by name and shape, each once, in the model's order.
    """
    names = {key: tuple(value.shape) for key, value in empty_model(config).state_dict().items()}
    with torch.device("meta"), NothingDrawn():
        model = PackedTenns(config)
    for key, shape in names.items():
        stored = take(key, shape)
        owner, _, leaf = key.rpartition(".")
        parent = model.get_submodule(owner.rpartition(".")[0])
        child = owner.rpartition(".")[2]
        scheme = scheme_of(key, len(shape), quantisation)
        if key == "embedding.weight":
            model.embedding = PackedEmbedding(stored, scheme)  # type: ignore[assignment]  # looks rows up alike
            if config.tied:
                model.head = PackedLinear(stored, scheme)  # type: ignore[assignment]  # maps alike
                model.head_rows = model.embedding
        elif key == "head.weight":
            model.head = PackedLinear(stored, scheme)  # type: ignore[assignment]  # maps alike
            model.head_rows = PackedEmbedding(stored, scheme)
        elif is_matrix(key, len(shape)):
            setattr(parent, child, PackedLinear(stored, scheme))
        elif leaf == "bias" and isinstance(packed := model.get_submodule(owner), PackedLinear):
            packed.bias = unpack(stored, scheme)
        else:
            value = nn.Parameter(unpack(stored, scheme), requires_grad=False)
            setattr(model.get_submodule(owner) if owner else model, leaf, value)
    return model.requires_grad_(False).eval()


def load_packed(folder: Path) -> tuple[PackedTenns, ModelCard]:
    """Read a model folder without unpacking its matrices.

    Raises:
        ModelError: as `load_model`, or the matrices are kept as FP32.
    """
    card, config, stored = read_stored(folder)
    if card.quantisation["matrices"] == "fp32":
        expected = "bf16, int8 or int4"
        raise ModelError("the model is not packed", given=f"{folder}: fp32", expected=expected, hint="precog quantize")

    def take(key: str, shape: tuple[int, ...]) -> Stored:
        parts = stored.pop(key)
        scheme = scheme_of(key, len(shape), card.quantisation)
        if not is_matrix(key, len(shape)):
            return {"": unpack_checked(key, parts, shape, card)}
        some = {suffix: part[:1] for suffix, part in parts.items()}  # a row shows whether the parts fit together
        unpack_checked(key, some, (1, *shape[1:]), card)
        if {part.shape[0] for part in parts.values()} != {shape[0]}:
            raise ModelError(f"{key} has another shape", given=scheme, expected=shape)
        return {suffix: _aligned(part) for suffix, part in parts.items()}  # once, for the head and its rows

    return assemble(config, card.quantisation, take), card


def random_packed(config: TennsConfig, matrices: str, embedding: str, seed: int = 0) -> PackedTenns:
    """An untrained packed model, drawn one matrix at a time as integers, so that memory stays near the packed size.

    Every layer has the same vectors, those of a fresh block; matrices are normal with the spread of a fresh one's.
    """
    quantisation = {"matrices": matrices, "embedding": embedding}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        vectors = TennsBlock(replace(config, layers=1)).state_dict()

        def take(key: str, shape: tuple[int, ...]) -> Stored:
            scheme = scheme_of(key, len(shape), quantisation)
            if is_matrix(key, len(shape)):
                std = 1 / math.sqrt(shape[1]) if key.startswith("blocks.") else 0.02
                return _drawn(shape, scheme, std)
            name = key.split(".", 2)[-1] if key.startswith("blocks.") else ""
            return {"": vectors[name].clone() if name else torch.ones(shape)}

        return assemble(config, quantisation, take)


def _drawn(shape: tuple[int, ...], scheme: str, std: float) -> Stored:
    """Normal weights as stored tensors; the integers are drawn with a spread that uses their range."""
    weight = torch.empty(shape).normal_()
    if scheme.startswith("int4"):
        spread = 2.3
        groups = shape[1] // group_size(scheme, shape[1])
        q = weight.mul_(spread).round_().clamp_(-8, 7)
        return pack4(q, torch.full((shape[0], groups), std / spread))
    if scheme == "int8":
        spread = 32.0
        q = weight.mul_(spread).round_().clamp_(-127, 127).to(torch.int8)
        return {".int8": q, ".scale": torch.full((shape[0], 1), std / spread)}
    return pack(weight.mul_(std), scheme)


def is_packed(model: nn.Module) -> bool:
    """Whether any product of a model takes packed weights."""
    return any(isinstance(module, PackedLinear) for module in model.modules())
