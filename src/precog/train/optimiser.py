"""Muon for the matrices of the blocks, AdamW for everything else.

Muon replaces a matrix's momentum by the nearest matrix with equal singular values, found by Newton–Schulz iterations;
scaled by 0.2·sqrt(max(rows, columns)) its steps have the size of AdamW's, so that one learning rate serves both
(Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982).
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from precog.backbones.tenns.block import Linear


def orthogonalise(matrices: Tensor, iterations: int = 5) -> Tensor:
    """The matrices [n, rows, columns] with their singular values brought near 1, in BF16."""
    a, b, c = 3.4445, -4.7750, 2.0315  # steepest slope at zero that still converges into [0.7, 1.2]
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.transpose(1, 2)
        mixed = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, mixed, x, beta=a)
    result: Tensor = x.transpose(1, 2) if tall else x
    return result


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised, with decoupled weight decay; for two-dimensional parameters only."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is ever used
        """Apply one update; matrices of equal shape are orthogonalised as one batch."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[tuple(parameter.shape)].append(parameter)
            for shape, parameters in by_shape.items():
                buffers = []
                for parameter in parameters:
                    state = self.state[parameter]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(parameter)
                    buffers.append(state["momentum"])
                gradients = [p.grad for p in parameters if p.grad is not None]
                torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
                looked_ahead = torch._foreach_lerp(gradients, buffers, group["momentum"])
                updates = orthogonalise(torch.stack(list(looked_ahead)))
                scale = 0.2 * max(shape) ** 0.5 * group["lr"]
                weights = [p.data for p in parameters]
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(
                    weights, [u.to(w.dtype) for u, w in zip(updates, weights, strict=True)], alpha=-scale
                )


def optimisers(
    model: nn.Module, kind: str, lr: float, weight_decay: float, embedding_lr_scale: float = 1.0
) -> list[torch.optim.Optimizer]:
    """The optimisers of a model: ``adamw`` (paper appendix E: β = 0.9, 0.95) or ``muon``.

    Vectors (norms, biases, α, D) are not decayed; frozen parameters are left alone. Every group keeps its ``peak_lr``,
    which a schedule multiplies. Where weights are cut into shards, only AdamW applies.
    """
    matrices: list[nn.Parameter] = []
    embeddings: list[nn.Parameter] = []
    vectors: list[nn.Parameter] = []
    linear = {
        id(module.weight) for name, module in model.named_modules() if isinstance(module, Linear) and name != "head"
    }
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if id(parameter) in linear:
            matrices.append(parameter)
        elif name.startswith(("embedding", "head")):
            embeddings.append(parameter)
        else:
            vectors.append(parameter)
    fused = next(model.parameters()).is_cuda
    groups = [
        {"params": embeddings, "weight_decay": weight_decay, "lr": lr * embedding_lr_scale},
        {"params": vectors, "weight_decay": 0.0},
    ]
    made: list[torch.optim.Optimizer] = []
    if kind != "muon":
        groups.append({"params": matrices, "weight_decay": weight_decay})
    elif matrices:
        made.append(Muon(matrices, lr=lr, momentum=0.95, weight_decay=weight_decay))
    groups = [group for group in groups if group["params"]]
    if groups:
        made.append(torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8, fused=fused))
    for optimiser in made:
        for group in optimiser.param_groups:
            group["peak_lr"] = group["lr"]
    return made
