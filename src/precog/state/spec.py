"""What a state will look like and cost, before any state exists."""

from dataclasses import dataclass
from functools import cached_property

from precog.errors import StateError, UsageError
from precog.state.layers import LayerSubset

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Scaled:
    """Reals of a layer that are kept in units of exp(m), m being another real of the same layer (RWKV-4, xLSTM).

    Attributes:
        start: first of them.
        stop: the one after the last.
        scale: where the first m stands.
        repeat: neighbours that share an m: real i is in units of exp(m) with m at ``scale + (i − start) // repeat``.
    """

    start: int
    stop: int
    scale: int
    repeat: int = 1

    @property
    def scales(self) -> range:
        """Where the m stand."""
        return range(self.scale, self.scale + -(-(self.stop - self.start) // self.repeat))


@dataclass(frozen=True)
class StateSpec:
    """Shape, size and origin of every state that one backbone makes.

    Attributes:
        layers: L, layers that keep a state.
        reals_per_layer: S, reals of recurrent state per layer.
        tail_shape: (kernel − 1, N), the convolution inputs a live state also keeps per layer; (0, 0) without any.
        decay_groups: g, independent timescales per layer: the shape of τ is [L, g]. 0 for a model that shows none.
        fingerprint: hex SHA-256 over weights, config, tokenizer, boundary, chunk-side template and encode mode.
        carries_tail: the convolution crosses segment boundaries, so that every state has a tail, stored ones included
            (ERRATA 3 describes the other case, a tail that is empty at every boundary).
        layer_reals: reals of each layer, where they differ; the rest of its row is zero and not stored. Empty where
            all have S.
        window: the reals (start, stop) of every row that are no memory but the last inputs of a convolution or of a
            token shift: composed states take them from their dominant member.
        scaled: the reals that are in units of exp(m); the m are stored as FP32 by every codec.
        averages: whether a weighted mean of states means anything; not where they hold keys and values of attention,
            which are bound to their positions.
        capacity: tokens whose keys and values a stored state has room for: a live one may be longer by those of what
            was read on. 0 where every state has the same size.
    """

    layers: int
    reals_per_layer: int
    tail_shape: tuple[int, int]
    decay_groups: int
    fingerprint: str
    carries_tail: bool = False
    layer_reals: tuple[int, ...] = ()
    window: tuple[int, int] = (0, 0)
    scaled: tuple[Scaled, ...] = ()
    averages: bool = True
    capacity: int = 0

    def __post_init__(self) -> None:
        if min(self.layers, self.reals_per_layer) < 1 or min(*self.tail_shape, self.decay_groups) < 0:
            given = f"{self.layers} × {self.reals_per_layer}, tail {self.tail_shape}, {self.decay_groups} groups"
            raise StateError("a state cannot have this shape", given=given, expected="sizes of at least 1")
        if self.layer_reals and (len(self.layer_reals) != self.layers or max(self.layer_reals) != self.reals_per_layer):
            given = f"{len(self.layer_reals)} layers of at most {max(self.layer_reals)} reals"
            raise StateError("a state cannot have this shape", given=given, expected=f"{self.layers} layers")
        if len(self.fingerprint) != 64 or set(self.fingerprint) - set("0123456789abcdef"):
            raise StateError("this is no fingerprint", given=self.fingerprint, expected="64 hex digits")

    @property
    def grows(self) -> bool:
        """Whether states grow with the tokens read."""
        return self.capacity > 0

    def kept_layers(self, text: str) -> LayerSubset:
        """A subset of the model's layers by name, see `LayerSubset.parse`.

        Raises:
            UsageError: the name is unknown, or only all layers of such states can be kept.
        """
        layers = LayerSubset.parse(text, self.layers)
        if self.grows and not layers.is_all:
            hint = "keys and values of every layer belong to one text: leave --layers out"
            raise UsageError(
                "a model with attention cannot go on from some of its layers", given=text, expected="all", hint=hint
            )
        return layers

    @property
    def stored_reals_per_layer(self) -> int:
        """Reals per layer that a store keeps: S, and the tail where it crosses boundaries."""
        return self.reals_per_layer + (self.tail_shape[0] * self.tail_shape[1] if self.carries_tail else 0)

    @cached_property
    def scale_positions(self) -> tuple[int, ...]:
        """Reals of a row that are scales m, rising."""
        return tuple(sorted({position for scaled in self.scaled for position in scaled.scales}))

    @property
    def decay_time_bytes(self) -> int:
        """Bytes of τ, always FP32 (24,576 for the paper's model: FP16 would err by 0.27 rad)."""
        return self.layers * self.decay_groups * FLOAT32_BYTES

    def num_reals(self, layers: LayerSubset | None = None) -> int:
        """Reals that a store keeps of one state: those of all layers, or of a subset."""
        kept = range(self.layers) if layers is None else layers.indices
        if self.layer_reals:
            tail = self.stored_reals_per_layer - self.reals_per_layer
            return sum(self.layer_reals[layer] + tail for layer in kept)
        return len(kept) * self.stored_reals_per_layer
