"""States at 8 and at 4 bits a real, and 0.5 bit more for what a group of 64 reals shares.

In this order: the scales m as FP32; the window, with the tail, as FP16; then of the memory, layer by layer and each
filled up with zeros to whole groups, low and step of every group as FP16, and the codes; then int8 exponents, one per
kept layer for the groups and, where there is a window, one per kept layer for it. A ``-rot`` codec turns each group by
a fixed rotation first.
"""

import numpy as np
from numpy.typing import NDArray

from precog.errors import StateError
from precog.state.codec.base import Codec, Rows
from precog.state.codec.columns import RowPlan, row_plan
from precog.state.codec.floats import float16_errors, largest_of, read_float16, read_float32, to_float16
from precog.state.codec.groups import Coded, Reals, restored, rotated, rounded, steps
from precog.state.codec.rotation import GROUP, GROWTH
from precog.state.layers import LayerSubset
from precog.state.spec import StateSpec

_TARGET = 12  # memory is brought below 2^12, and stays below 2^15 when it is rotated
_LEAST_EXPONENT = -100  # steps below 2^-124 would be no normal numbers
_LARGEST = 2.0**115
_END_BYTES = 4


class IntegerCodec(Codec):
    """A quarter or an eighth of the bytes: |ĥ − h| ≤ step / 2, and √64 · step / 2 where groups are rotated.

    The step is (largest − smallest) / (2^bits − 1) of a (rotated) group, rounded up. The window is rounded as ``fp16``.

    Args:
        name: how it is asked for.
        bits: of a code, 4 or 8.
        rotates: whether groups are rotated before they are rounded.
    """

    is_exact = False

    def __init__(self, name: str, *, bits: int, rotates: bool) -> None:
        self.name, self.bits, self.rotates = name, bits, rotates

    def note(self, spec: StateSpec, layers: LayerSubset | None = None) -> dict[str, object]:
        """What a reader of the bytes must know besides codec, layers and width, the size of a group among it."""
        window = row_plan(spec, layers).window_ranges
        note = super().note(spec, layers) | {"group": GROUP}
        return note | ({"window": [list(part) for part in window]} if window else {})

    def _num_bytes(self, plan: RowPlan) -> int:
        padded = plan.memory.padded(GROUP)
        codes = padded * self.bits // 8
        return 4 * plan.scales.total + 2 * plan.window.total + padded // GROUP * _END_BYTES + codes

    def _num_exponents(self, plan: RowPlan) -> int:
        return len(plan.memory.layers) * (2 if plan.window.total else 1)

    def _pack(self, rows: Rows, plan: RowPlan) -> bytes:
        groups, exponents, _ = self._groups(rows, plan)
        coded = rounded(groups, self.bits)
        parts = [plan.scales.gather(rows).astype("<f4"), coded.ends.astype("<f2"), coded.codes, exponents]
        if plan.window.total:
            window, shifts = to_float16(rows, plan.window)
            parts = [parts[0], window.astype("<f2"), *parts[1:], shifts]
        return b"".join(part.tobytes() for part in parts)

    def _unpack(self, raw: NDArray[np.uint8], plan: RowPlan, fingerprint: str) -> Rows:
        num_layers = len(plan.memory.layers)
        padded = plan.memory.padded(GROUP)
        at = np.cumsum(
            (4 * plan.scales.total, 2 * plan.window.total, padded // GROUP * _END_BYTES, padded * self.bits // 8)
        ).tolist()
        ends = read_float16(raw[at[1] : at[2]], fingerprint).reshape(-1, 2)
        codes = raw[at[2] : at[3]].reshape(len(ends), GROUP * self.bits // 8)
        exponents = raw[at[3] :].view(np.int8)
        factors = np.ldexp(np.float32(1), exponents[:num_layers].astype(np.int32))
        factors = np.repeat(factors, plan.memory.groups(GROUP))
        reals = restored(Coded(ends, codes), self.bits, factors, rotates=self.rotates)
        rows = plan.memory.rows_of(reals.reshape(-1), GROUP)
        if plan.window.total:
            window = read_float16(raw[at[0] : at[1]], fingerprint).astype(np.float32)
            shifts = np.repeat(exponents[num_layers:].astype(np.int32), plan.window.counts)
            plan.window.scatter(np.ldexp(window, shifts), rows)
        if plan.scales.total:
            plan.scales.scatter(read_float32(raw[: at[0]], fingerprint), rows)
        return rows

    def _errors(self, rows: Rows, plan: RowPlan) -> Rows:
        groups, exponents, sizes = self._groups(rows, plan)
        step = steps(groups, self.bits)
        # a reading that differs in its last bits may have its step rounded up to the next FP16 number
        per_real = np.float32((0.5 * GROWTH if self.rotates else 0.5) * (1 + 2.0**-9)) * step
        # FP32 arithmetic: a few roundings of the largest real, 64 products of each rotation, what is lost below 2^-149
        per_real += sizes * np.float32(2.0**-14 if self.rotates else 2.0**-21) + np.float32(2.0**-60)
        factors = np.ldexp(np.float32(1), exponents.astype(np.int32))
        per_real = per_real * np.repeat(factors, plan.memory.groups(GROUP))
        errors = plan.memory.rows_of(np.repeat(per_real, GROUP), GROUP)
        return errors + float16_errors(rows, plan.window) if plan.window.total else errors

    def _groups(self, rows: Rows, plan: RowPlan) -> tuple[Reals, NDArray[np.int8], Reals]:
        """Groups as they are rounded, an exponent per layer, and the largest |real| of each group before rotation."""
        memory = plan.memory.alone(rows)
        largest = largest_of(memory)
        if largest.size and largest.max() >= _LARGEST:
            raise StateError(f"a state is too large for {self.name}: {largest.max():g}", hint="store it as fp32")
        exponents = np.where(largest > 0, np.maximum(np.frexp(largest)[1] - _TARGET, _LEAST_EXPONENT), _LEAST_EXPONENT)
        scaled = np.ldexp(memory, -exponents.astype(np.int32)[:, None])
        groups = plan.memory.gather(scaled, GROUP).reshape(-1, GROUP)
        sizes = largest_of(groups)
        return (rotated(groups) if self.rotates else groups), exponents.astype(np.int8), sizes
