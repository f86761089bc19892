"""States to bytes and back: FP32 bit-exactly, FP16 within a declared bound; nothing is ever clipped.

Bytes, little-endian, of a fixed size per spec and subset: the kept layers in ascending order, each S reals (then, for
a model whose convolution crosses boundaries, its tail); FP16 adds one int8 exponent e per kept layer, and the value is
real · 2^e. e is 0 unless the layer exceeds FP16's range.
"""

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from precog.errors import DamagedStateError, StateError, UsageError
from precog.state.foreign import foreign, titled
from precog.state.layers import LayerSubset
from precog.state.spec import StateSpec
from precog.state.state import DecayTime, State

FLOAT16_MAX = 65504.0
_FLOAT16_EXPONENT = 0x7C00
_LARGEST = FLOAT16_MAX * 2.0**112
Buffer = bytes | bytearray | memoryview | NDArray[np.uint8]


class Codec(ABC):
    """What turns a state into bytes of a known number and back: reals of one width in a row.

    Attributes:
        name: ``fp32`` or ``fp16``.
        is_exact: whether the round trip is bit-exact.
    """

    name = ""
    is_exact = True
    _dtype = torch.float32
    _stored_as = "<f4"
    _exponents_per_layer = 0

    def state_bytes(self, spec: StateSpec, layers: LayerSubset | None = None) -> int:
        """Bytes of the reals alone: 196,608 for the paper's model at FP16 (ERRATA 2)."""
        return spec.num_reals(layers) * self._dtype.itemsize

    def encoded_bytes(self, spec: StateSpec, layers: LayerSubset | None = None) -> int:
        """Bytes of an encoded state, exponents included."""
        count = spec.layers if layers is None else len(layers.indices)
        return self.state_bytes(spec, layers) + count * self._exponents_per_layer

    def encode(self, state: State, spec: StateSpec, layers: LayerSubset | None = None) -> bytes:
        """The bytes of a boundary state.

        Raises:
            ForeignStateError: the state is of another model than the spec.
            StateError: it is live where tails are not stored, or holds a value that is not finite.
        """
        _check_layers(spec, layers)
        if state.fingerprint != spec.fingerprint:
            raise foreign(state.fingerprint, spec.fingerprint)
        if state.is_live and not spec.carries_tail:
            hint = "store State.at_boundary(): exact for every continuation that opens a new segment"
            raise StateError("a live state is not stored", given=state, expected="a boundary state", hint=hint)
        state.check(spec, stored=True)
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
        return self._pack(reals)

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
        rows = spec.layers if layers is None else len(layers.indices)
        num_real_bytes = self.state_bytes(spec, layers)
        # a tensor of our own, in few calls: after an encoder has run, each one costs more than the bytes it moves
        copied = raw[:num_real_bytes].view(self._stored_as).reshape(rows, spec.stored_reals_per_layer).copy()
        if not self._all_finite(copied):
            raise DamagedStateError(
                f"an encoded state holds values that are not finite: {titled('', spec.fingerprint)}"
            )
        reals = self._unpack(torch.from_numpy(copied), raw[num_real_bytes:])
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

    @abstractmethod
    def _pack(self, reals: Tensor) -> bytes: ...

    @abstractmethod
    def _unpack(self, stored: Tensor, exponents: NDArray[np.uint8]) -> Tensor: ...

    def _all_finite(self, stored: NDArray[np.floating]) -> bool:
        return bool(np.isfinite(stored).all())


class Float32Codec(Codec):
    """Every bit kept."""

    name = "fp32"

    def _pack(self, reals: Tensor) -> bytes:
        return reals.numpy().astype(self._stored_as, copy=False).tobytes()

    def _unpack(self, stored: Tensor, exponents: NDArray[np.uint8]) -> Tensor:
        return stored


class Float16Codec(Codec):
    """Half the bytes: |ĥ − h| ≤ 2^-11 |h| + 2^(e−25), with e = 0 while a layer is within ±65,504."""

    name = "fp16"
    is_exact = False
    _dtype = torch.float16
    _stored_as = "<f2"
    _exponents_per_layer = 1

    def _pack(self, reals: Tensor) -> bytes:
        exponents = _exponents(reals)
        if exponents.any():
            reals = torch.ldexp(reals, -torch.from_numpy(exponents.astype(np.int32))[:, None])
        return reals.half().numpy().astype(self._stored_as, copy=False).tobytes() + exponents.tobytes()

    def _unpack(self, stored: Tensor, exponents: NDArray[np.uint8]) -> Tensor:
        reals = stored.float()
        if exponents.any():
            reals = torch.ldexp(reals, torch.from_numpy(exponents.view(np.int8).astype(np.int32))[:, None])
        return reals

    def _all_finite(self, stored: NDArray[np.floating]) -> bool:
        # all exponent bits set is infinity or no number; NumPy's own test of FP16 is ten times slower
        return stored.size == 0 or int((stored.view(np.uint16) & _FLOAT16_EXPONENT).max()) < _FLOAT16_EXPONENT

    def bound(self, state: State) -> Tensor:
        """The largest error [L, S] that encoding this state may cause, per element."""
        reals = state.recurrent
        floor = torch.ldexp(
            torch.full((reals.shape[0],), 2.0**-25), torch.from_numpy(_exponents(reals).astype(np.int32))
        )
        return reals.abs() * 2.0**-11 + floor[:, None]


CODECS: dict[str, Codec] = {"fp32": Float32Codec(), "fp16": Float16Codec()}


def codec_named(name: str) -> Codec:
    """A codec by name.

    Raises:
        UsageError: there is no such codec.
    """
    if name not in CODECS:
        raise UsageError("no such state codec", given=name, expected=", ".join(CODECS))
    return CODECS[name]


def _exponents(reals: Tensor) -> NDArray[np.int8]:
    """The least power of two per layer that brings it into FP16's range; 0 wherever it is in range already."""
    largest = reals.abs().amax(dim=1).numpy() if reals.numel() else np.zeros(reals.shape[0], np.float32)
    exponents = np.zeros(len(largest), np.int8)
    if largest.size and largest.max() > _LARGEST:  # rounding would reach FP32's infinity
        raise StateError(f"a state is too large for FP16: {largest.max():g}", hint="store it as fp32")
    over = largest > FLOAT16_MAX
    if over.any():
        exponents[over] = np.frexp(largest[over] / FLOAT16_MAX)[1]
    return exponents


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
