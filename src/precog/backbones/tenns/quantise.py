"""Weights in fewer bytes on disk: INT8 per row, INT4 in groups; computing stays in FP32 or BF16.

A stored tensor's suffix says how it is kept. ``.int8``: int8 [rows, columns], w = q · scale[row] (FP32).
``.int4``: two columns a byte, the even one in the low half, q = nibble − 8, w = q · scale[row, group] (FP16).
"""

import torch
from torch import Tensor

from precog.errors import ModelError

GROUP_SIZES = (32, 64, 128)
SCHEMES = ("fp32", "bf16", "int8", *(f"int4:{size}" for size in GROUP_SIZES))


def pack(weight: Tensor, scheme: str) -> dict[str, Tensor]:
    """The stored tensors of a matrix [rows, columns], by suffix (``""`` where it is kept as it is).

    Raises:
        ModelError: unknown scheme, columns that do not divide into groups, or weights that are not finite.
    """
    if scheme not in SCHEMES:
        raise ModelError("no such quantisation", given=scheme, expected=", ".join(SCHEMES))
    weight = weight.detach().float().cpu()
    if not torch.isfinite(weight).all():
        raise ModelError("weights are not finite", given=f"a {tuple(weight.shape)} matrix")
    if scheme == "fp32":
        return {"": weight.contiguous()}
    if scheme == "bf16":
        return {"": weight.to(torch.bfloat16).contiguous()}
    if scheme == "int8":
        scale = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(torch.finfo(torch.float32).tiny)
        return {".int8": (weight / scale).round().clamp(-127, 127).to(torch.int8), ".scale": scale}
    size = int(scheme.partition(":")[2])
    rows, columns = weight.shape
    if columns % size:
        raise ModelError("a matrix does not divide into groups", given=f"{columns} columns", expected=f"× {size}")
    grouped = weight.view(rows, columns // size, size)
    scale = _best_scale(grouped)
    q = _round4(grouped, scale).view(rows, columns) + 8
    q = q.to(torch.uint8)
    return {".int4": q[:, 0::2] | (q[:, 1::2] << 4), ".scale": scale.squeeze(2)}


def _round4(grouped: Tensor, scale: Tensor) -> Tensor:
    wide = scale.float()
    return torch.where(wide == 0, 0.0, (grouped / torch.where(wide == 0, 1.0, wide)).round().clamp(-8, 7))


def _best_scale(grouped: Tensor) -> Tensor:
    """FP16 scale per group with the least squared error: clipping a few outliers pays at four bits."""
    signed = grouped.gather(2, grouped.abs().argmax(2, keepdim=True))
    best = torch.zeros_like(signed, dtype=torch.float16)
    least = torch.full_like(signed, torch.inf)
    for levels in (-8.0, -7.5, -7.0, -9.0, -10.0, 7.0, 7.5, 8.0, 9.0):
        scale = (signed / levels).half()
        if not torch.isfinite(scale).all():
            raise ModelError("weights are too large for INT4", given=f"{signed.abs().max():g}")
        error = (_round4(grouped, scale) * scale.float() - grouped).square().sum(2, keepdim=True)
        better = error < least
        best, least = torch.where(better, scale, best), torch.where(better, error, least)
    return best


def unpack(stored: dict[str, Tensor], scheme: str) -> Tensor:
    """The FP32 matrix of its stored tensors (the inverse of `pack`).

    Raises:
        ModelError: the tensors are not those of the scheme.
    """
    try:
        if scheme in ("fp32", "bf16"):
            expected = torch.float32 if scheme == "fp32" else torch.bfloat16
            if stored[""].dtype != expected:
                raise ModelError("a matrix has another dtype", given=stored[""].dtype, expected=scheme)
            return stored[""].float()
        scale = stored[".scale"]
        if scheme == "int8":
            q = stored[".int8"]
            if q.dtype != torch.int8 or scale.dtype != torch.float32 or scale.shape != (q.shape[0], 1):
                raise ModelError("an INT8 matrix is malformed", given=f"{q.dtype} {tuple(q.shape)}", expected="int8")
            return q.float().mul_(scale)
        packed, size = stored[".int4"], int(scheme.partition(":")[2])
        rows, columns = packed.shape[0], 2 * packed.shape[1]
        if packed.dtype != torch.uint8 or scale.dtype != torch.float16 or scale.shape != (rows, columns // size):
            raise ModelError(
                "an INT4 matrix is malformed", given=f"{packed.dtype} {tuple(packed.shape)}", expected="uint8"
            )
    except KeyError as error:
        raise ModelError("a stored tensor is missing", given=error.args[0] or scheme, expected=scheme) from error
    weight = torch.empty(rows, columns)
    weight[:, 0::2] = packed & 15
    weight[:, 1::2] = packed >> 4
    return weight.sub_(8).view(rows, columns // size, size).mul_(scale.float()[:, :, None]).view(rows, columns)
