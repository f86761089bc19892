"""What a state will look like and cost, before any state exists."""

from dataclasses import dataclass

from precog.errors import StateError
from precog.state.layers import LayerSubset

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class StateSpec:
    """Shape, size and origin of every state that one backbone makes.

    Attributes:
        layers: L, layers that keep a state.
        reals_per_layer: S, reals of recurrent state per layer.
        tail_shape: (kernel − 1, N), the convolution inputs a live state also keeps per layer; (0, 0) without any.
        decay_groups: g, independent timescales per layer: the shape of τ is [L, g].
        fingerprint: hex SHA-256 over weights, config, tokenizer, boundary, chunk-side template and encode mode.
        carries_tail: the convolution crosses segment boundaries, so that every state has a tail, stored ones included
            (ERRATA 3 describes the other case, a tail that is empty at every boundary).
    """

    layers: int
    reals_per_layer: int
    tail_shape: tuple[int, int]
    decay_groups: int
    fingerprint: str
    carries_tail: bool = False

    def __post_init__(self) -> None:
        if min(self.layers, self.reals_per_layer, self.decay_groups) < 1 or min(self.tail_shape) < 0:
            given = f"{self.layers} × {self.reals_per_layer}, tail {self.tail_shape}, {self.decay_groups} groups"
            raise StateError("a state cannot have this shape", given=given, expected="sizes of at least 1")
        if len(self.fingerprint) != 64 or set(self.fingerprint) - set("0123456789abcdef"):
            raise StateError("this is no fingerprint", given=self.fingerprint, expected="64 hex digits")

    @property
    def stored_reals_per_layer(self) -> int:
        """Reals per layer that a store keeps: S, and the tail where it crosses boundaries."""
        return self.reals_per_layer + (self.tail_shape[0] * self.tail_shape[1] if self.carries_tail else 0)

    @property
    def decay_time_bytes(self) -> int:
        """Bytes of τ, always FP32 (24,576 for the paper's model: FP16 would err by 0.27 rad)."""
        return self.layers * self.decay_groups * FLOAT32_BYTES

    def num_reals(self, layers: LayerSubset | None = None) -> int:
        """Reals that a store keeps of one state: those of all layers, or of a subset."""
        count = self.layers if layers is None else len(layers.indices)
        return count * self.stored_reals_per_layer
