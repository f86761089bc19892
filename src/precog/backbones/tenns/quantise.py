"""Weights in fewer bytes: INT8 per row, INT4 per row or in groups; how a matrix becomes integers and scales, and back.

A stored tensor's suffix says how it is kept. ``.int8``: int8 [rows, columns], w = q · scale[row] (FP32).
``.int4``: two columns a byte, the even one in the low half, q = nibble − 8, w = q · scale[row, group] (FP16).
An INT4 scale has eight significant bits, so that BF16 holds it, too: what computes on packed weights (``packed``) then
computes with exactly the weights that `unpack` gives.
"""

import torch
from torch import Tensor

from precog.errors import ModelError

GROUP_SIZES = (32, 64, 128)
SCHEMES = ("fp32", "bf16", "int8", *(f"int4:{size}" for size in GROUP_SIZES), "int4:channel")
_LEVELS = (-8.0, -7.5, -7.0, -9.0, -10.0, 7.0, 7.5, 8.0, 9.0)  # where the largest weight of a group may come to lie
_REFINEMENTS = 2
_TOGETHER = 1 << 17  # weights whose scales are looked for at a time


def pack(weight: Tensor, scheme: str, importance: Tensor | None = None) -> dict[str, Tensor]:
    """The stored tensors of a matrix [rows, columns], by suffix (``""`` where it is kept as it is).

    Args:
        weight: the matrix, in any dtype, on any device.
        scheme: one of `SCHEMES`.
        importance: [columns] mean square of each input, which weighs the errors of its column; equal when None.

    Raises:
        ModelError: unknown scheme, columns that do not divide into groups, or weights that are not finite.
    """
    if scheme not in SCHEMES:
        raise ModelError("no such quantisation", given=scheme, expected=", ".join(SCHEMES))
    weight = weight.detach().float().cpu()
    if not torch.isfinite(weight).all():
        raise ModelError(f"weights are not finite: a {tuple(weight.shape)} matrix")
    if scheme == "fp32":
        return {"": weight.contiguous()}
    if scheme == "bf16":
        narrow = weight.to(torch.bfloat16).contiguous()
        if not torch.isfinite(narrow).all():  # the largest FP32 numbers round up to BF16's infinity
            raise ModelError(f"weights are too large for BF16: {weight.abs().max():g}", hint="keep them in fp32")
        return {"": narrow}
    if scheme == "int8":
        scale = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(torch.finfo(torch.float32).tiny)
        q = (weight / scale).round().clamp(-127, 127)
        if not torch.isfinite(q * scale).all():  # a scale that was rounded up makes the largest weight infinite
            raise ModelError(f"weights are too large for INT8: {weight.abs().max():g}", hint="keep them in fp32")
        return {".int8": q.to(torch.int8), ".scale": scale}
    rows, columns = weight.shape
    size = group_size(scheme, columns)
    grouped = weight.view(rows, columns // size, size)
    if importance is not None:
        importance = importance.detach().float().cpu().view(columns // size, size)
    parts = torch.split(grouped, max(1, _TOGETHER // columns))  # rows are independent, and caches are small
    scales = [best_scale(part, importance) for part in parts]
    q = torch.cat([round4(part, scale).to(torch.int8) for part, scale in zip(parts, scales, strict=True)])
    return pack4(q.view(rows, columns), torch.cat(scales).squeeze(2))


def group_size(scheme: str, columns: int) -> int:
    """Columns that share an INT4 scale.

    Raises:
        ModelError: the columns do not divide into groups, or not into pairs.
    """
    group = scheme.partition(":")[2]
    size = columns if group == "channel" else int(group)
    if columns % size or columns % 2:
        raise ModelError(
            "a matrix does not divide into groups",
            given=f"{columns} columns",
            expected=f"a multiple of {2 if group == 'channel' else size}",
            hint="take smaller groups or int8",
        )
    return size


def pack4(q: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """The stored tensors of integers −8 … 7 [rows, columns] and FP16 scales [rows, groups]."""
    nibbles = (q + 8).to(torch.uint8)
    return {".int4": nibbles[:, 0::2] | (nibbles[:, 1::2] << 4), ".scale": scale.half()}


def round4(grouped: Tensor, scale: Tensor) -> Tensor:
    """The integers −8 … 7 nearest to grouped / scale; 0 where the scale is 0."""
    wide = scale.to(grouped.dtype)
    return torch.where(wide == 0, 0.0, (grouped / torch.where(wide == 0, 1.0, wide)).round().clamp(-8, 7))


def _eight_bits(scale: Tensor) -> Tensor:
    return scale.bfloat16().half()


def best_scale(grouped: Tensor, importance: Tensor | None = None) -> Tensor:
    """FP16 scales [rows, groups, 1] of least squared error: clipping a few outliers pays at four bits.

    Several places for the largest weight are tried, then the best is refined by least squares.

    Args:
        grouped: [rows, groups, size].
        importance: [groups, size] weight of each column's squared error; equal when None.

    Raises:
        ModelError: the weights are beyond what FP16 scales reach.
    """
    signed = grouped.gather(2, grouped.abs().argmax(2, keepdim=True))
    best = torch.zeros_like(signed, dtype=torch.float16)
    least = torch.full_like(signed, torch.inf)

    def offer(scale: Tensor) -> None:
        nonlocal best, least
        if not torch.isfinite(scale).all():
            raise ModelError(f"weights are too large for INT4: {signed.abs().max():g}")
        errors = (round4(grouped, scale) * scale.to(grouped.dtype) - grouped).square()
        error = (errors if importance is None else errors * importance).sum(2, keepdim=True)
        better = error < least
        best, least = torch.where(better, scale, best), torch.where(better, error, least)

    for level in _LEVELS:
        offer(_eight_bits(signed / level))
    for _ in range(_REFINEMENTS):
        q = round4(grouped, best)
        heavy = q if importance is None else q * importance
        offer(_eight_bits((heavy * grouped).sum(2, keepdim=True) / (heavy * q).sum(2, keepdim=True).clamp_min(1e-30)))
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
        packed = stored[".int4"]
        rows, columns = packed.shape[0], 2 * packed.shape[1]
        size = group_size(scheme, columns)
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
