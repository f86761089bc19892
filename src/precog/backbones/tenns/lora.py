"""Low-rank adapters: W x becomes W x + (alpha / rank) · B (A x), with W frozen and B zero at the start.

Hu et al. 2021 (arXiv 2106.09685). An adapted layer keeps the name and weight of the layer it replaces, so that a
model's tensors are those of its base and two more per layer, ``.down`` (A) and ``.up`` (B).
"""

import dataclasses
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.nn import functional

from precog.backbones.tenns.block import Linear
from precog.backbones.tenns.model import TennsModel
from precog.errors import ModelError

TARGETS = ("project_in", "project_out", "mix", "value", "write", "read", "bottleneck")
"""The matrices of a block; those that a mixer lacks are passed over."""
DOWN, UP = ".down", ".up"
MAX_RANK = 1024


@dataclasses.dataclass(frozen=True)
class LoraSettings:
    """Size and places of an adapter.

    Attributes:
        rank: r, columns of B and rows of A.
        alpha: the update is scaled by alpha / rank; None is the rank, a scale of 1.
        dropout: share of the inputs of A that are dropped in training.
        targets: names of matrices in a block (``mix``), or patterns of them (``project_*``).
    """

    rank: int = 32
    alpha: float | None = None
    dropout: float = 0.0
    targets: tuple[str, ...] = TARGETS

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= MAX_RANK:
            raise ModelError("the rank of an adapter is out of range", given=self.rank, expected=f"1 to {MAX_RANK}")
        if self.alpha is not None and not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ModelError("the alpha of an adapter is out of range", given=self.alpha, expected="above 0")
        if not 0 <= self.dropout < 1:
            raise ModelError("the dropout of an adapter is out of range", given=self.dropout, expected="0 ≤ share < 1")
        if not self.targets:
            raise ModelError("an adapter adapts something", given="no target", expected=", ".join(TARGETS))

    @property
    def scale(self) -> float:
        """Factor on B A."""
        return 1.0 if self.alpha is None else self.alpha / self.rank


class LoraLinear(Linear):
    """A frozen linear map with a trainable low-rank one beside it.

    Args:
        base: whose weight and bias are shared.
        settings: rank, scale and dropout.
        generator: draws A; B is zero, so that nothing changes before the first step.
    """

    def __init__(self, base: Linear, settings: LoraSettings, generator: torch.Generator) -> None:
        super().__init__(base.in_features, base.out_features, bias=base.bias is not None, device="meta")
        self.weight = base.weight
        self.bias = base.bias
        self.scale, self.dropout = settings.scale, settings.dropout
        down = torch.randn(settings.rank, base.in_features, generator=generator) / math.sqrt(base.in_features)
        device = base.weight.device
        self.down = nn.Parameter(down.to(device))
        self.up = nn.Parameter(torch.zeros(base.out_features, settings.rank, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """Both maps, in the dtype of ``x``."""
        kept = functional.dropout(x, self.dropout, self.training)
        update = functional.linear(functional.linear(kept, self.down.to(x.dtype)), self.up.to(x.dtype))
        return super().forward(x) + update * self.scale


def targeted(model: TennsModel, targets: tuple[str, ...]) -> dict[str, Linear]:
    """The matrices of the blocks that patterns name, by their place in the model.

    Raises:
        ModelError: a pattern fits no matrix of this model.
    """
    matrices = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Linear) and name.startswith("blocks.")
    }
    found: dict[str, Linear] = {}
    for pattern in targets:
        fitting = [name for name in matrices if fnmatchcase(name.rpartition(".")[2], pattern)]
        if not fitting and pattern not in TARGETS:
            known = ", ".join(sorted({name.rpartition(".")[2] for name in matrices}))
            raise ModelError("an adapter names a matrix that the model lacks", given=pattern, expected=known)
        found.update((name, matrices[name]) for name in fitting)
    if not found:
        known = ", ".join(sorted({name.rpartition(".")[2] for name in matrices}))
        raise ModelError("an adapter adapts no matrix of this model", given=", ".join(targets), expected=known)
    return {name: found[name] for name in matrices if name in found}


def add_lora(model: TennsModel, settings: LoraSettings, seed: int = 0) -> TennsModel:
    """The same model, in place, with adapters on the targeted matrices; they alone want gradients.

    Raises:
        ModelError: a target is not there, or the model is adapted already.
    """
    found = targeted(model, settings.targets)
    if any(isinstance(layer, LoraLinear) for layer in found.values()):
        raise ModelError("the model has an adapter already", hint="merge it first")
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, layer in found.items():
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, LoraLinear(layer, settings, generator))
    return model


def lora_tensors(model: TennsModel) -> dict[str, Tensor]:
    """The tensors of a model's adapters in FP32, by name; on the CPU, copied."""
    found: dict[str, Tensor] = {}
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLinear):
            found[name + DOWN] = layer.down.detach().float().cpu().clone()
            found[name + UP] = layer.up.detach().float().cpu().clone()
    return found


@torch.no_grad()
def apply_tensors(model: TennsModel, settings: LoraSettings, tensors: Mapping[str, Tensor]) -> TennsModel:
    """The same model, in place, with the stored tensors of an adapter added to its weights.

    Raises:
        ModelError: a tensor is missing, superfluous, misshapen, or no FP32.
    """
    found = targeted(model, settings.targets)
    expected = {name + suffix for name in found for suffix in (DOWN, UP)}
    if expected != set(tensors):
        given = f"missing {sorted(expected - set(tensors))[:3]}, superfluous {sorted(set(tensors) - expected)[:3]}"
        raise ModelError("the adapter does not fit the model", given=given, expected=f"{len(expected)} tensors")
    for name, layer in found.items():
        down, up = tensors[name + DOWN], tensors[name + UP]
        shapes = (settings.rank, layer.in_features), (layer.out_features, settings.rank)
        if (tuple(down.shape), tuple(up.shape)) != shapes or {down.dtype, up.dtype} != {torch.float32}:
            given = f"{name}: {tuple(down.shape)}, {tuple(up.shape)}, {up.dtype}"
            raise ModelError("the adapter does not fit the model", given=given, expected=f"FP32 {shapes}")
        if not (torch.isfinite(down).all() and torch.isfinite(up).all()):
            raise ModelError(f"an adapter's weights are not finite: {name}")
        weight = layer.weight
        weight.copy_(weight.float() + (up @ down * settings.scale).to(weight.device))
    return model
