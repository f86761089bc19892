"""Where the library reads on from a state otherwise than it reads in one pass, and what mends it.

Two mixers do. Jamba's starts its scan from nothing whenever it reads more than one token. The Mamba-2 mixers keep
their time steps Δ within bounds when they read many tokens, but not when they read one. What mends them is a pure
function of its arguments: it keeps nothing, and what the library computes without any cache stays its own.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import DynamicCache


def mend(model: nn.Module) -> None:
    """Make every mixer of a model read on from a state as it reads in one pass."""
    for module in model.modules():
        if type(module).__name__ == "JambaMambaMixer":
            module.forward = partial(_read_jamba, module, module.forward)  # type: ignore[method-assign]  # of this one
        elif hasattr(module, "time_step_limit") and hasattr(module, "dt_bias") and hasattr(module, "in_proj"):
            _bound_time_steps(module)


def _bound_time_steps(mixer: nn.Module) -> None:
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
    mixer: nn.Module,
    stock: Callable[..., Tensor],
    hidden_states: Float[Tensor, "B T d"],
    cache: DynamicCache | None = None,
    attention_mask: Tensor | None = None,
    **kwargs: object,
) -> Float[Tensor, "B T d"]:
    """Jamba's mixer from any state: many tokens at once, whatever was read before them."""
    start = None if cache is None else cache.get_recurrent_state(mixer.layer_idx, state_idx=0)
    if cache is None or start is None or hidden_states.shape[1] == 1:
        return stock(hidden_states, cache=cache, attention_mask=attention_mask, **kwargs)
    length = hidden_states.shape[1]
    inputs, gate = mixer.in_proj(hidden_states).transpose(1, 2).chunk(2, dim=1)
    seen = cache.update_conv_state(inputs, mixer.layer_idx, conv_kernel_size=mixer.conv_kernel_size)
    window = seen[..., -(length + mixer.conv_kernel_size - 1) :]
    weight, bias = mixer.conv1d.weight, mixer.conv1d.bias
    inputs = mixer.act(nn.functional.conv1d(window, weight, bias, groups=weight.shape[0]))
    sizes = [mixer.time_step_rank, mixer.ssm_state_size, mixer.ssm_state_size]
    ranks, into, out = mixer.x_proj(inputs.transpose(1, 2)).split(sizes, dim=-1)
    steps = mixer.dt_proj(mixer.dt_layernorm(ranks)).float()
    outputs, end = scan_from(
        start.float(),
        inputs.transpose(1, 2).float(),
        nn.functional.softplus(steps),
        -mixer.A_log.float().exp(),
        mixer.b_layernorm(into).float(),
        mixer.c_layernorm(out).float(),
    )
    outputs = outputs + inputs.transpose(1, 2).float() * mixer.D.float()
    cache.update_recurrent_state(end.to(start.dtype), mixer.layer_idx)
    outputs = outputs * nn.functional.silu(gate.transpose(1, 2).float())
    mixed: Tensor = mixer.out_proj(outputs.to(hidden_states.dtype))
    return mixed


def scan_from(
    state: Float[Tensor, "B d N"],
    inputs: Float[Tensor, "B T d"],
    steps: Float[Tensor, "B T d"],
    decay: Float[Tensor, "d N"],
    into: Float[Tensor, "B T N"],
    out: Float[Tensor, "B T N"],
) -> tuple[Float[Tensor, "B T d"], Float[Tensor, "B d N"]]:
    """h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t and y_t = C_t h_t from a given h (Mamba, section 3.2).

    Returns:
        y, and the last h.
    """
    outputs = []
    for t in range(inputs.shape[1]):
        kept = (steps[:, t, :, None] * decay).exp()
        state = kept * state + (steps[:, t] * inputs[:, t])[..., None] * into[:, t, None]
        outputs.append((state * out[:, t, None]).sum(-1))
    return torch.stack(outputs, dim=1), state
