"""The recurrence one token at a time: slow, obvious, and the judge of every fast path.

Two forms (paper Eq. 1 with ERRATA 1 and 2):

diagonal    h_t = a_t ⊙ h_{t−1} + u_t                  a, u, h complex, M modes, as (re, im) in a last axis of 2
outer       H_t = a_t H_{t−1} + β_t v_tᵀ,  y_t = r_tᵀ H_t    a one real decay per head, H is K × P per head

A reset at t makes h_{t−1} count as zero: the document mask of the data loader, never a token id (see ARCHITECTURE,
*Boundary and reset are different things*).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Modes = Float[Tensor, "B T M 2"]
ModeState = Float[Tensor, "B M 2"]
HeadState = Float[Tensor, "B H K P"]


def diagonal_step(decay: ModeState, drive: ModeState, state: ModeState) -> ModeState:
    """One token of the diagonal recurrence: ``decay ⊙ state + drive`` in complex arithmetic."""
    real = decay[..., 0] * state[..., 0] - decay[..., 1] * state[..., 1]
    imag = decay[..., 0] * state[..., 1] + decay[..., 1] * state[..., 0]
    return torch.stack((real, imag), dim=-1) + drive


def diagonal_loop(
    decay: Modes, drive: Modes, initial: ModeState | None = None, resets: Bool[Tensor, "B T"] | None = None
) -> Modes:
    """Every state of the diagonal recurrence, by a loop over tokens, in the dtype of ``drive``."""
    state = torch.zeros_like(drive[:, 0]) if initial is None else initial.to(drive.dtype)
    states = []
    for t in range(drive.shape[1]):
        if resets is not None:
            state = state * (~resets[:, t])[:, None, None].to(state.dtype)
        state = diagonal_step(decay[:, t], drive[:, t], state)
        states.append(state)
    return torch.stack(states, dim=1)


def selective_loop(
    v: Float[Tensor, "B T N"],
    beta: Float[Tensor, "B T N"],
    dt: Float[Tensor, "B T G"],
    real: Float[Tensor, " M"],
    omega: Float[Tensor, " M"] | None,
    initial: Float[Tensor, "B N"] | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B N"]]:
    """States and final state from the gates, one token at a time, in the dtype of Δ."""
    modes = real.shape[0]
    state = dt.new_zeros(v.shape[0], modes, 2)
    if initial is not None:
        state = torch.stack((initial[:, :modes], initial[:, modes:]), dim=-1)
    states = []
    for t in range(v.shape[1]):
        if resets is not None:
            state = state * (~resets[:, t])[:, None, None].to(state.dtype)
        step = dt[:, t].repeat_interleave(modes // dt.shape[2], dim=-1)
        phase = torch.zeros_like(step) if omega is None else step * omega
        radius = (step * real).exp()
        written = step.repeat(1, 2) * beta[:, t].to(dt.dtype) * v[:, t].to(dt.dtype)
        state = diagonal_step(
            torch.stack((radius * phase.cos(), radius * phase.sin()), dim=-1),
            torch.stack((written[:, :modes], written[:, modes:]), dim=-1),
            state,
        )
        states.append(torch.cat((state[..., 0], state[..., 1]), dim=-1))
    return torch.stack(states, dim=1), states[-1]


def outer_step(
    log_decay: Float[Tensor, "B H"],
    write: Float[Tensor, "B H K"],
    value: Float[Tensor, "B H P"],
    read: Float[Tensor, "B H K"],
    state: HeadState,
) -> tuple[Float[Tensor, "B H P"], HeadState]:
    """One token of the outer-product recurrence: readout and new state.

    On a CPU the few decays are powers in FP64: the last bit of one in FP32 depends on how many rows there are.
    """
    decay = (log_decay.double() if log_decay.device.type == "cpu" else log_decay).exp().to(log_decay.dtype)
    state = decay[..., None, None] * state + write[..., None] * value[..., None, :]
    return (read[..., None] * state).sum(-2), state


def outer_loop(
    log_decay: Float[Tensor, "B T H"],
    write: Float[Tensor, "B T H K"],
    value: Float[Tensor, "B T H P"],
    read: Float[Tensor, "B T H K"],
    initial: HeadState | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T H P"], HeadState]:
    """Readouts and final state of the outer-product recurrence, by a loop over tokens."""
    rows, length, heads, coefficients = write.shape
    shape = (rows, heads, coefficients, value.shape[-1])
    state = value.new_zeros(shape) if initial is None else initial.to(value.dtype)
    readouts = []
    for t in range(length):
        if resets is not None:
            state = state * (~resets[:, t])[:, None, None, None].to(state.dtype)
        readout, state = outer_step(log_decay[:, t], write[:, t], value[:, t], read[:, t], state)
        readouts.append(readout)
    return torch.stack(readouts, dim=1), state
