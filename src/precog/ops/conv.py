"""Causal convolution of each channel, bias and SiLU, with a window that stays inside its segment.

    v_t ← SiLU(b + Σ_j w_j ⊙ v_{t−j} [segment(t−j) = segment(t)])          j = 0 … kernel − 1

What stood before the first token, the tail, belongs to the segment before the first boundary, number 0 (ERRATA 3).
"""

import importlib.util

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

# kernels are declared at import, before anything is compiled; a build of torch without CUDA does not pay for Triton
FUSED = torch.version.cuda is not None and importlib.util.find_spec("triton") is not None
if FUSED:
    from precog.ops.triton_conv import is_supported, triton_segment_conv


def segment_conv(
    v: Float[Tensor, "B T N"],
    weight: Float[Tensor, "N taps"],
    bias: Float[Tensor, " N"],
    tail: Float[Tensor, "B reach N"] | None = None,
    segments: Int[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B T N"]:
    """The convolution of every token, by the fastest form there is, in the dtype of ``v``.

    Args:
        v: inputs.
        weight: taps, that of the token itself first; any floating dtype.
        bias: any floating dtype.
        tail: the last kernel − 1 inputs before the first token, oldest first; zeros when None.
        segments: number of boundary tokens up to and including each token; None lets the window cross them.
    """
    if FUSED and v.is_cuda and is_supported(v, weight):
        return triton_segment_conv(v, weight, bias, tail, segments)
    return tapped_segment_conv(v, weight, bias, tail, segments)


def tapped_segment_conv(
    v: Float[Tensor, "B T N"],
    weight: Float[Tensor, "N taps"],
    bias: Float[Tensor, " N"],
    tail: Float[Tensor, "B reach N"] | None = None,
    segments: Int[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B T N"]:
    """``segment_conv`` in torch: one masked product for each tap."""
    reach = weight.shape[1] - 1
    length = v.shape[1]
    before = v.new_zeros(v.shape[0], reach, v.shape[2]) if tail is None else tail.to(v.dtype)
    padded = torch.cat((before, v), dim=1)
    weight = weight.to(v.dtype)
    out = bias.to(v.dtype) + weight[:, 0] * v
    if segments is not None:
        labels = functional.pad(segments, (reach, 0))
    for j in range(1, reach + 1):
        tap = padded[:, reach - j : reach - j + length]
        if segments is not None:
            tap = tap * (labels[:, reach - j : reach - j + length] == segments)[..., None].to(tap.dtype)
        out = torch.addcmul(out, tap, weight[:, j])
    return functional.silu(out)


def segment_conv_loop(
    v: Float[Tensor, "B T N"],
    weight: Float[Tensor, "N taps"],
    bias: Float[Tensor, " N"],
    tail: Float[Tensor, "B reach N"] | None = None,
    segments: Int[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B T N"]:
    """``segment_conv`` by a loop over rows, tokens and taps: slow, obvious, and the judge of the other forms."""
    reach = weight.shape[1] - 1
    rows = []
    for row in range(v.shape[0]):
        tokens = []
        for t in range(v.shape[1]):
            total = bias
            for j in range(reach + 1):
                label = 0 if segments is None or t < j else int(segments[row, t - j])
                if segments is not None and label != int(segments[row, t]):
                    continue
                if t >= j:
                    total = total + weight[:, j] * v[row, t - j]
                elif tail is not None:
                    total = total + weight[:, j] * tail[row, reach + t - j]
            tokens.append(total * torch.sigmoid(total))
        rows.append(torch.stack(tokens))
    return torch.stack(rows)
