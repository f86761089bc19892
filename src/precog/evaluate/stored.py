"""A state as a store keeps it: the bytes of a codec, and what stands beside them."""

from dataclasses import dataclass

from precog.state import Codec, State, StateSpec
from precog.state.state import DecayTime

__all__ = ["Stored"]


@dataclass(frozen=True, eq=False)
class Stored:
    """One state.

    Attributes:
        data: of the codec.
        num_tokens: that it has read.
        decay_time: τ of all layers, [L, g].
        encoding_dtype: compute dtype that was recorded.
    """

    data: bytes
    num_tokens: int
    decay_time: DecayTime
    encoding_dtype: str

    @classmethod
    def of(cls, state: State, codec: Codec, spec: StateSpec) -> "Stored":
        """A boundary state in bytes.

        Raises:
            ForeignStateError, StateError: as `Codec.encode`.
        """
        return cls(codec.encode(state, spec), state.num_tokens, state.decay_time, state.encoding_dtype)

    def state(self, codec: Codec, spec: StateSpec) -> State:
        """The state, decoded anew."""
        return codec.decode(
            self.data,
            spec,
            num_tokens=self.num_tokens,
            decay_time=self.decay_time,
            encoding_dtype=self.encoding_dtype,
        )
