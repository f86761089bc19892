"""States at 32 and at 16 bits a real.

``fp32``: every real as it is. ``fp16``: the scales m as FP32, then every other real as FP16, then one int8 exponent e
per kept layer; the value is real · 2^e, and e is 0 unless the layer exceeds FP16's range.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from precog.errors import StateError
from precog.state.codec.base import Codec, Rows, damaged
from precog.state.codec.columns import Columns, RowPlan

FLOAT16_MAX = 65504.0
_FLOAT16_EXPONENT = 0x7C00
_LARGEST = FLOAT16_MAX * 2.0**112


class Float32Codec(Codec):
    """Every bit kept."""

    name = "fp32"

    def _num_bytes(self, plan: RowPlan) -> int:
        return 4 * plan.everything.total

    def _num_exponents(self, plan: RowPlan) -> int:
        return 0

    def _pack(self, rows: Rows, plan: RowPlan) -> bytes:
        return plan.everything.gather(rows).astype("<f4", copy=False).tobytes()

    def _unpack(self, raw: NDArray[np.uint8], plan: RowPlan, fingerprint: str) -> Rows:
        return plan.everything.rows_of(read_float32(raw, fingerprint))

    def _errors(self, rows: Rows, plan: RowPlan) -> Rows:
        return np.zeros_like(rows)


class Float16Codec(Codec):
    """Half the bytes: |ĥ − h| ≤ 2^-11 |h| + 2^(e−25), with e = 0 while a layer is within ±65,504."""

    name = "fp16"
    is_exact = False

    def _num_bytes(self, plan: RowPlan) -> int:
        return 4 * plan.scales.total + 2 * plan.everything_but_scales.total

    def _num_exponents(self, plan: RowPlan) -> int:
        return len(plan.memory.layers)

    def _pack(self, rows: Rows, plan: RowPlan) -> bytes:
        reals, exponents = to_float16(rows, plan.everything_but_scales)
        scales = plan.scales.gather(rows).astype("<f4", copy=False)
        return scales.tobytes() + reals.astype("<f2", copy=False).tobytes() + exponents.tobytes()

    def _unpack(self, raw: NDArray[np.uint8], plan: RowPlan, fingerprint: str) -> Rows:
        at, count = 4 * plan.scales.total, plan.everything_but_scales.total
        reals = read_float16(raw[at : at + 2 * count], fingerprint)
        rows = plan.everything_but_scales.rows_of(torch.from_numpy(reals).float().numpy())
        exponents = raw[at + 2 * count :].view(np.int8)
        if exponents.any():
            np.ldexp(rows, exponents.astype(np.int32)[:, None], out=rows)
        if at:
            plan.scales.scatter(read_float32(raw[:at], fingerprint), rows)
        return rows

    def _errors(self, rows: Rows, plan: RowPlan) -> Rows:
        return float16_errors(rows, plan.everything_but_scales)


def to_float16(rows: Rows, columns: Columns) -> tuple[NDArray[np.float16], NDArray[np.int8]]:
    """Reals in a line as FP16, and one exponent per layer.

    Raises:
        StateError: beyond what rounding keeps finite.
    """
    exponents = float16_exponents(rows, columns)
    if exponents.any():
        rows = np.ldexp(rows, -exponents.astype(np.int32)[:, None])
    return torch.from_numpy(np.ascontiguousarray(columns.gather(rows))).half().numpy(), exponents


def float16_errors(rows: Rows, columns: Columns) -> Rows:
    """The largest error that FP16 may cause in each of some reals; 0 elsewhere."""
    floor = np.ldexp(np.float32(2.0**-25), float16_exponents(rows, columns).astype(np.int32))
    return columns.alone(np.abs(rows) * np.float32(2.0**-11) + floor[:, None])


def float16_exponents(rows: Rows, columns: Columns) -> NDArray[np.int8]:
    """The least power of two per layer that brings it into FP16's range; 0 wherever it is in range already."""
    largest = largest_of(columns.alone(rows))
    exponents = np.zeros(len(largest), np.int8)
    if largest.size and largest.max() > _LARGEST:  # rounding would reach FP32's infinity
        raise StateError(f"a state is too large for FP16: {largest.max():g}", hint="store it as fp32")
    over = largest > FLOAT16_MAX
    if over.any():
        exponents[over] = np.frexp(largest[over] / FLOAT16_MAX)[1]
    return exponents


def largest_of(rows: Rows) -> NDArray[np.float32]:
    """The largest |real| of each row; 0 where there is none."""
    if not rows.size:
        return np.zeros(rows.shape[0], np.float32)
    largest: NDArray[np.float32] = torch.from_numpy(rows).abs().amax(dim=1).numpy()
    return largest


def read_float32(raw: NDArray[np.uint8], fingerprint: str) -> NDArray[np.float32]:
    """A copy of stored FP32 reals.

    Raises:
        DamagedStateError: one is not finite.
    """
    reals: NDArray[np.float32] = raw.view("<f4").astype(np.float32)
    if not np.isfinite(reals).all():
        raise damaged(fingerprint)
    return reals


def read_float16(raw: NDArray[np.uint8], fingerprint: str) -> NDArray[np.float16]:
    """A copy of stored FP16 reals.

    Raises:
        DamagedStateError: one is not finite.
    """
    reals: NDArray[np.float16] = raw.view("<f2").astype(np.float16)
    # all exponent bits set is infinity or no number; NumPy's own test of FP16 is ten times slower
    if reals.size and int((reals.view(np.uint16) & _FLOAT16_EXPONENT).max()) >= _FLOAT16_EXPONENT:
        raise damaged(fingerprint)
    return reals
