"""The recurrence of channels with a vector each, from an initial state (Mamba, arXiv 2312.00752, Algorithm 2).

    h_t[d] = exp(Δ_t[d] a[d]) ⊙ h_{t−1}[d] + Δ_t[d] x_t[d] w_t,    y_t[d] = r_t · h_t[d]

h[d], a[d], w and r have N reals; all D channels share w and r.

The fast form cuts the tokens into pieces that are walked side by side: once from nothing, to know how each piece ends,
and once from where its predecessor ended. Every decay is at most 1, so nothing can overflow.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

WORTHWHILE_REALS = {"cpu": 1 << 14}  # that many at once keep a processor busy
_WORTHWHILE_ELSEWHERE = 1 << 21

Channels = Float[Tensor, "B T D"]
Shared = Float[Tensor, "B T N"]
ChannelState = Float[Tensor, "B D N"]


def channel_loop(
    x: Channels, dt: Channels, a: Float[Tensor, "D N"], write: Shared, read: Shared, initial: ChannelState
) -> tuple[Channels, ChannelState]:
    """Readouts and final state, one token at a time.

    Args:
        x: what is written.
        dt: Δ, not negative.
        a: decay rates, not positive.
        write: w.
        read: r.
        initial: h before the first token.
    """
    state, readouts = initial, []
    for t in range(x.shape[1]):
        decay = (dt[:, t, :, None] * a).exp()
        state = decay * state + (dt[:, t] * x[:, t])[..., None] * write[:, t, None, :]
        readouts.append((state * read[:, t, None, :]).sum(-1))
    return torch.stack(readouts, dim=1), state


@torch.no_grad()
def channel_scan(
    x: Channels,
    dt: Channels,
    a: Float[Tensor, "D N"],
    write: Shared,
    read: Shared,
    initial: ChannelState,
    pieces: int | None = None,
) -> tuple[Channels, ChannelState]:
    """`channel_loop` without gradients, in few and large operations.

    Args:
        x, dt, a, write, read, initial: as there, of one dtype.
        pieces: how many are walked side by side; chosen by size when None.
    """
    rows, length, channels = x.shape
    if pieces is None:
        pieces = _pieces(length, initial.numel(), x.device.type)
    size = length // pieces
    even = size * pieces
    cut = tuple(part[:, :even].reshape(rows * pieces, size, -1) for part in (x, dt, write, read))
    starts = initial
    if pieces > 1:
        local = _walk(cut, a, initial.new_zeros(rows * pieces, *initial.shape[1:]), None)
        passed = cut[1].sum(1).reshape(rows, pieces, channels)
        starts = _carry(local.reshape(rows, pieces, *initial.shape[1:]), passed, a, initial)
    readouts = torch.empty_like(x[:, :even]).reshape(rows * pieces, size, channels)
    ends = _walk(cut, a, starts.clone(), readouts)
    state = ends.reshape(rows, pieces, *initial.shape[1:])[:, -1]
    readouts = readouts.reshape(rows, even, channels)
    if even == length:
        return readouts, state
    rest = torch.empty_like(x[:, even:])
    state = _walk((x[:, even:], dt[:, even:], write[:, even:], read[:, even:]), a, state.clone(), rest)
    return torch.cat((readouts, rest), dim=1), state


def _pieces(length: int, state_reals: int, device: str) -> int:
    """Twice the work in √T fewer steps: worth it where one step would not keep the device busy."""
    most = WORTHWHILE_REALS.get(device, _WORTHWHILE_ELSEWHERE) // state_reals
    return max(1, min(math.isqrt(length), most))


def _walk(tokens: tuple[Tensor, ...], a: Tensor, state: Tensor, readouts: Tensor | None) -> Tensor:
    """The state at the end of every piece, in place of where it began; what is read on the way where wanted."""
    x, dt, write, read = tokens
    written = dt * x
    decay, drive = torch.empty_like(state), torch.empty_like(state)
    for t in range(x.shape[1]):
        torch.mul(dt[:, t, :, None], a, out=decay).exp_()
        torch.mul(written[:, t, :, None], write[:, t, None, :], out=drive)
        state.mul_(decay).add_(drive)
        if readouts is not None:
            readouts[:, t] = torch.matmul(state, read[:, t, :, None])[..., 0]
    return state


def _carry(local: Tensor, passed: Tensor, a: Tensor, initial: Tensor) -> Tensor:
    """Where each piece begins, from how it would end had it begun from nothing and the Δ that pass in it."""
    starts = [initial]
    for piece in range(local.shape[1] - 1):
        starts.append((passed[:, piece, :, None] * a).exp() * starts[-1] + local[:, piece])
    return torch.stack(starts, dim=1).flatten(0, 1)
