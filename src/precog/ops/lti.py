"""The non-selective (LTI) mode by FFT: with constant a the recurrence is a convolution (ERRATA 4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from precog.ops.reference import Modes, ModeState


def lti_fft(decay: Float[Tensor, "M 2"], drive: Modes, initial: ModeState | None = None) -> Modes:
    """Every state of h_t = a ⊙ h_{t−1} + u_t for one constant decay a, in O(T log T).

    With an input-dependent Δt no kernel exists and this function does not apply: use the scan.
    """
    length = drive.shape[1]
    a = torch.view_as_complex(decay.contiguous())
    powers = a[None] ** torch.arange(length, device=drive.device)[:, None]
    u = torch.view_as_complex(drive.contiguous())
    size = 2 * length  # long enough that the circular convolution does not wrap
    states = torch.fft.ifft(torch.fft.fft(powers, n=size, dim=0)[None] * torch.fft.fft(u, n=size, dim=1), dim=1)
    states = states[:, :length]
    if initial is not None:
        states = states + (a * powers)[None] * torch.view_as_complex(initial.contiguous())[:, None]
    return torch.view_as_real(states)
