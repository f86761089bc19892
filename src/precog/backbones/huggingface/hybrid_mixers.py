"""Where the library reads on from a state otherwise than it reads in one pass, and what mends it.

Two mixers do. Jamba's starts its scan from nothing whenever it reads more than one token. The Mamba-2 mixers keep
their time steps Δ within bounds when they read many tokens, but not when they read one. What mends them is a pure
function of its arguments: it keeps nothing, and what the library computes without any cache stays its own.

Mixers are of classes that have nothing in common but the names of their weights, hence ``Any``.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import DynamicCache

from precog.backbones.huggingface.mamba import read_mixer


def mend(model: nn.Module) -> None:
    """Make every mixer of a model read on from a state as it reads in one pass."""
    for module in model.modules():
        if type(module).__name__ == "JambaMambaMixer":
            module.forward = partial(_read_jamba, module, module.forward)
        elif hasattr(module, "time_step_limit") and hasattr(module, "dt_bias") and hasattr(module, "in_proj"):
            _bound_time_steps(module)


def _bound_time_steps(mixer: Any) -> None:
    """Bound what Δ is the softplus of, so that a single step cannot leave the bounds either.

    The last columns of the input projection are what Δ is made of: Δ = softplus(factor · column + bias), and a pass
    over many tokens clamps it to ``time_step_limit``.
    """
    limit = mixer.time_step_limit
    low, high = (0.0, math.inf) if limit is None else (float(limit[0]), float(limit[1]))
    if low <= 0 and high == math.inf:
        return

    def bounded(_: nn.Module, __: tuple[Tensor, ...], projected: Float[Tensor, "B T d"]) -> Tensor | None:
        if projected.shape[1] != 1:
            return None
        bias = mixer.dt_bias.float()
        factors = getattr(mixer, "mup_vector", None)
        factor = torch.ones_like(bias) if factors is None else factors.flatten()[-bias.numel() :].float()
        columns = projected[..., -bias.numel() :].float() * factor + bias
        columns = (columns.clamp(_softplus_inverse(low), _softplus_inverse(high)) - bias) / factor
        return torch.cat((projected[..., : -bias.numel()], columns.to(projected.dtype)), dim=-1)

    mixer.in_proj.register_forward_hook(bounded)


def _softplus_inverse(value: float) -> float:
    if value <= 0:
        return -math.inf
    return value + math.log(-math.expm1(-value)) if value < math.inf else math.inf


def _read_jamba(
    mixer: Any,
    stock: Callable[..., Tensor],
    hidden_states: Float[Tensor, "B T d"],
    **asked: object,
) -> Float[Tensor, "B T d"]:
    """Jamba's mixer from any state: many tokens at once, whatever was read before them."""
    cache = next((value for value in asked.values() if isinstance(value, DynamicCache)), None)
    kept = None if cache is None else cache.layers[mixer.layer_idx]
    if cache is None or kept is None or not kept.has_previous_state[0] or hidden_states.shape[1] == 1:
        return stock(hidden_states, **asked)
    start = kept.recurrent_states[0]
    window = kept.conv_states[0][..., 1:]  # the oldest has left the kernel
    said, end, leaving = read_mixer(mixer, hidden_states, start.float(), window.transpose(1, 2))
    cache.update_conv_state(leaving.transpose(1, 2), mixer.layer_idx)
    cache.update_recurrent_state(end.to(start.dtype), mixer.layer_idx)
    return said
