"""The selective diagonal recurrence of the paper's mixer, from its gates to its states (ERRATA 1 and 2).

    h_m ← exp(Δ_g λ_m) h_m + Δ_g (β_m v_m + i β_{M+m} v_{M+m}),    λ_m = real_m + i omega_m,  g the group of mode m

On a CUDA device one fused kernel a direction does it; everywhere else decays and drives are made with torch and
scanned. Both equal :func:`precog.ops.reference.selective_loop`.
"""

from importlib.util import find_spec

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from precog.errors import UsageError
from precog.ops.scan import diagonal_scan
from precog.ops.traced import is_traced

FUSED = torch.version.cuda is not None and find_spec("triton") is not None
if FUSED:
    from precog.ops import triton_diagonal


def selective_scan(
    v: Float[Tensor, "B T N"],
    beta: Float[Tensor, "B T N"],
    dt: Float[Tensor, "B T G"],
    real: Float[Tensor, " M"],
    omega: Float[Tensor, " M"] | None,
    initial: Float[Tensor, "B N"] | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B N"]]:
    """Every state and the last one, differentiable in all but ``resets``.

    N = 2M reals hold the real parts of all modes, then their imaginary parts.

    Args:
        v: what is written.
        beta: β, how strongly; the dtype of ``v``.
        dt: Δ of each group of M / G modes, clamped, zero at padded tokens; FP32 (FP64 when ``v`` is).
        real: Re λ, negative.
        omega: Im λ; None where no mode rotates, which is faster than zeros.
        initial: h before the first token; zero when None.
        resets: True where the state before this token counts as zero.

    Returns:
        States in the dtype of ``v``, and the final state as it was accumulated, in the dtype of ``dt``.

    Raises:
        UsageError: the sizes contradict each other.
    """
    modes, groups = real.shape[0], dt.shape[2]
    if v.shape[2] != 2 * modes or groups < 1 or modes % groups:
        raise UsageError(
            "selective scan: the sizes contradict each other",
            given=f"N {v.shape[2]}, M {modes}, G {groups}",
            expected="N = 2M, and M a multiple of G",
        )
    if FUSED and v.is_cuda and beta.dtype == v.dtype and triton_diagonal.is_supported(v, dt, real):
        start = None if initial is None else initial.to(dt.dtype)
        scan = triton_diagonal.selective_scan_op if is_traced() else triton_diagonal.launch_scan
        states, final, _ = scan(v, beta, dt, real, omega, start, resets)
        return states, final
    return torch_selective_scan(v, beta, dt, real, omega, initial, resets)


def torch_selective_scan(
    v: Float[Tensor, "B T N"],
    beta: Float[Tensor, "B T N"],
    dt: Float[Tensor, "B T G"],
    real: Float[Tensor, " M"],
    omega: Float[Tensor, " M"] | None,
    initial: Float[Tensor, "B N"] | None = None,
    resets: Bool[Tensor, "B T"] | None = None,
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B N"]]:
    """``selective_scan`` in torch, on any device and in any precision.

    The final state is read where the last token is that is no padding: behind it the scan sums in another order, and a
    text would leave another last bit beside a longer one than alone.
    """
    modes, groups = real.shape[0], dt.shape[2]
    step = dt.repeat_interleave(modes // groups, dim=-1)
    radius = (step * real).exp()
    if omega is None:
        decay = torch.stack((radius, torch.zeros_like(radius)), dim=-1)
    else:
        phase = step * omega
        decay = torch.stack((radius * phase.cos(), radius * phase.sin()), dim=-1)
    written = beta.to(dt.dtype) * v.to(dt.dtype)
    drive = step[..., None] * torch.stack((written[..., :modes], written[..., modes:]), dim=-1)
    entering = None if initial is None else torch.stack((initial[:, :modes], initial[:, modes:]), dim=-1)
    scanned = diagonal_scan(decay, drive, entering, resets)
    stacked = torch.cat((scanned[..., 0], scanned[..., 1]), dim=-1)
    last = (dt[..., 0] > 0).cumsum(1).argmax(1)  # Δ is positive but at padded tokens
    return stacked.to(v.dtype), stacked[torch.arange(len(last), device=last.device), last]
