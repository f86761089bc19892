"""How states are kept as records: codec, layers, and the sizes that follow from them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from precog.store import RecordLayout

if TYPE_CHECKING:  # states load torch, and settings that only name a form need none
    import precog.state


@dataclass(frozen=True)
class RecordForm:
    """What a folder's settings say about its records.

    Attributes:
        codec: name of a codec, such as ``fp16``.
        layers: subset of layers whose states are kept.
        encode_mode: ``once``, ``twice`` or ``twice-reversed``: how chunks are read.
        encoding_dtype: compute dtype the states were made with.
        max_tokens: most tokens of a chunk.
    """

    codec: str
    layers: str
    encode_mode: str
    encoding_dtype: str
    max_tokens: int

    def layout(self, spec: "precog.state.StateSpec", vocab_size: int) -> RecordLayout:
        """Sizes of a record and, for readers of the format, what its state bytes mean.

        Raises:
            UsageError: the model has no such layers, or cannot go on from some of them only.
        """
        from precog.state import codec_named

        codec, layers = codec_named(self.codec), spec.kept_layers(self.layers)
        note: dict[str, object] = {
            "codec": self.codec,
            "layers": list(layers.indices),
            "reals_per_layer": spec.stored_reals_per_layer,
            "tau": [spec.layers, spec.decay_groups],
            "encoding_dtype": self.encoding_dtype,
            **codec.note(spec, layers),
        }
        if spec.grows:
            note["room_tokens"] = spec.capacity
        return RecordLayout(
            state_bytes=codec.encoded_bytes(spec, layers),
            tau_bytes=spec.decay_time_bytes,
            max_tokens=self.max_tokens,
            token_width=2 if vocab_size <= 1 << 16 else 4,
            note=note,
        )
