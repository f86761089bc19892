"""What every codec has in common: which states it takes, which bytes it refuses, how layers left out come back.

Bytes are little-endian and of a fixed number per spec and subset. The stored row of a layer is its reals, then its tail
where the convolution crosses boundaries; kept layers follow each other, rising. `docs/format.md` has the layouts.
"""

from abc import ABC, abstractmethod

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from precog.errors import DamagedStateError, StateError
from precog.state.codec.columns import Columns, RowPlan, row_plan
from precog.state.foreign import foreign, titled
from precog.state.layers import LayerSubset
from precog.state.spec import StateSpec
from precog.state.state import DecayTime, State

Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]
Rows = NDArray[np.float32]


class Codec(ABC):
    """What turns a state into bytes of a known number and back.

    Attributes:
        name: how it is asked for.
        is_exact: whether the round trip is bit-exact.
    """

    name = ""
    is_exact = True

    def state_bytes(self, spec: StateSpec, layers: LayerSubset | None = None) -> int:
        """Bytes without the exponents of whole layers: 196,608 for the paper's model at FP16 (ERRATA 2)."""
        return self._num_bytes(row_plan(spec, layers))

    def encoded_bytes(self, spec: StateSpec, layers: LayerSubset | None = None) -> int:
        """Bytes of an encoded state, exponents included."""
        plan = row_plan(spec, layers)
        return self._num_bytes(plan) + self._num_exponents(plan)

    def note(self, spec: StateSpec, layers: LayerSubset | None = None) -> dict[str, object]:
        """What a reader of the bytes must know besides codec, layers and width: docs/format.md, *The bytes of a state*.

        Empty where every layer has all columns and nothing but memory.
        """
        plan = row_plan(spec, layers)
        note: dict[str, object] = {}
        if spec.layer_reals:
            kept = range(spec.layers) if layers is None else layers.indices
            note["layer_reals"] = [spec.layer_reals[layer] for layer in kept]
            note["tail"] = spec.stored_reals_per_layer - spec.reals_per_layer
        if plan.scale_ranges:
            note["scales"] = [list(part) for part in plan.scale_ranges]
        return note

    def encode(self, state: State, spec: StateSpec, layers: LayerSubset | None = None) -> bytes:
        """The bytes of a boundary state.

        Raises:
            ForeignStateError: the state is of another model than the spec.
            StateError: it is live where tails are not stored, holds a value that is not finite, or one where its layer
                has no reals, or one that is too large.
        """
        rows = _stored_rows(state, spec, layers)
        return self._pack(rows, row_plan(spec, layers))

    def rounded(self, state: State, spec: StateSpec, layers: LayerSubset | None = None) -> State:
        """A state as it comes back from its bytes, with all that stands beside them.

        Raises:
            ForeignStateError, StateError: as `encode`.
        """
        return self.decode(
            self.encode(state, spec, layers),
            spec,
            layers,
            num_tokens=state.num_tokens,
            decay_time=state.decay_time,
            encoding_dtype=state.encoding_dtype,
        )

    def decode(
        self,
        data: Buffer,
        spec: StateSpec,
        layers: LayerSubset | None = None,
        *,
        num_tokens: int,
        decay_time: DecayTime | NDArray[np.float32] | None = None,
        encoding_dtype: str = "float32",
    ) -> State:
        """The state of some bytes; layers that were left out are zero.

        Args:
            data: exactly ``encoded_bytes`` bytes; only read, one copy is made of them.
            spec: of the model that wrote them.
            layers: the subset that was kept.
            num_tokens: tokens the state has read.
            decay_time: τ of all layers, [L, g] in any layout; zeros when it was not kept.
            encoding_dtype: compute dtype that was recorded.

        Raises:
            DamagedStateError: the number of bytes is wrong or a value is not finite.
        """
        _check_layers(spec, layers)
        raw = np.frombuffer(data, np.uint8)
        if raw.nbytes != self.encoded_bytes(spec, layers):
            expected = f"{self.encoded_bytes(spec, layers)} bytes of {self.name}"
            raise DamagedStateError(
                "an encoded state has the wrong size", given=f"{raw.nbytes} bytes", expected=expected
            )
        # in few calls: after an encoder has run, each one costs more than the bytes it moves
        reals = torch.from_numpy(self._unpack(raw, row_plan(spec, layers), spec.fingerprint))
        if layers is not None and not layers.is_all:
            full = torch.zeros(spec.layers, spec.stored_reals_per_layer)
            full[list(layers.indices)] = reals
            reals = full
        tail = None
        if spec.carries_tail:
            tail = reals[:, spec.reals_per_layer :].reshape(spec.layers, *spec.tail_shape).clone()
            reals = reals[:, : spec.reals_per_layer].clone()
        return State.adopt(
            reals,
            tail=tail,
            num_tokens=num_tokens,
            fingerprint=spec.fingerprint,
            decay_time=_decay_time(decay_time, spec),
            encoding_dtype=encoding_dtype,
        )

    def bound(self, state: State, spec: StateSpec) -> Float[Tensor, "L S"]:
        """The largest error that encoding this state may cause, per real; zeros for a codec that is exact.

        Raises:
            StateError: as `encode`.
        """
        rows = _stored_rows(state, spec, None)
        return torch.from_numpy(self._errors(rows, row_plan(spec, None)))[:, : spec.reals_per_layer].clone()

    @abstractmethod
    def _num_bytes(self, plan: RowPlan) -> int: ...

    @abstractmethod
    def _num_exponents(self, plan: RowPlan) -> int: ...

    @abstractmethod
    def _pack(self, rows: Rows, plan: RowPlan) -> bytes: ...

    @abstractmethod
    def _unpack(self, raw: NDArray[np.uint8], plan: RowPlan, fingerprint: str) -> Rows:
        """Rows of their own, zeros where a layer has no reals; values that are not finite are refused."""

    @abstractmethod
    def _errors(self, rows: Rows, plan: RowPlan) -> Rows: ...


def damaged(fingerprint: str) -> DamagedStateError:
    """The error for bytes that hold values no codec writes."""
    return DamagedStateError(f"an encoded state holds values that are not finite: {titled('', fingerprint)}")


def _stored_rows(state: State, spec: StateSpec, layers: LayerSubset | None) -> Rows:
    _check_layers(spec, layers)
    if state.fingerprint != spec.fingerprint:
        raise foreign(state.fingerprint, spec.fingerprint)
    if state.is_live and not spec.carries_tail:
        hint = "store State.at_boundary(): exact for every continuation that opens a new segment"
        raise StateError("a live state is not stored", given=state, expected="a boundary state", hint=hint)
    state.check(spec)
    reals = state.recurrent
    if spec.carries_tail:
        tail = state.tail
        if tail is None:
            raise StateError("a state lacks the tail that its model carries", given=state)
        reals = torch.cat((reals, tail.flatten(1)), dim=1)
    if layers is not None and not layers.is_all:
        reals = reals[list(layers.indices)]
    if not torch.isfinite(reals).all():
        raise StateError(f"a state holds values that are not finite: {state}", hint="nothing was stored")
    rows: Rows = reals.numpy()
    if spec.layer_reals and _has_more(rows, row_plan(spec, layers).everything):
        raise StateError(f"a state holds values beyond the reals of a layer: {state}", hint="nothing was stored")
    return rows


def _has_more(rows: Rows, columns: Columns) -> bool:
    return bool(np.count_nonzero(rows) != np.count_nonzero(columns.gather(rows)))


def _check_layers(spec: StateSpec, layers: LayerSubset | None) -> None:
    if layers is not None and layers.num_layers != spec.layers:
        raise StateError(
            "a layer subset of another model", given=f"of {layers.num_layers} layers", expected=spec.layers
        )


def _decay_time(values: DecayTime | NDArray[np.float32] | None, spec: StateSpec) -> Tensor:
    shape = (spec.layers, spec.decay_groups)
    if values is None:
        return torch.zeros(shape)
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.size != spec.layers * spec.decay_groups:
        raise DamagedStateError("τ has the wrong size", given=array.size, expected=spec.layers * spec.decay_groups)
    return torch.from_numpy(array.astype(np.float32).reshape(shape))
