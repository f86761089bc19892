"""How states are kept as records, and the way back: codec, layers, and the sizes that follow from them."""

from dataclasses import dataclass

from precog.backbones.protocol import Backbone
from precog.state import LayerSubset, State, StateSpec, codec_named
from precog.store import Record, RecordLayout


@dataclass(frozen=True)
class RecordForm:
    """What a folder's settings say about its records.

    Attributes:
        codec: ``fp16`` or ``fp32``.
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

    def layout(self, spec: StateSpec, vocab_size: int) -> RecordLayout:
        """Sizes of a record and, for readers of the format, what its state bytes mean."""
        layers = LayerSubset.parse(self.layers, spec.layers)
        note: dict[str, object] = {
            "codec": self.codec,
            "layers": list(layers.indices),
            "reals_per_layer": spec.stored_reals_per_layer,
            "tau": [spec.layers, spec.decay_groups],
            "encoding_dtype": self.encoding_dtype,
        }
        return RecordLayout(
            state_bytes=codec_named(self.codec).encoded_bytes(spec, layers),
            tau_bytes=spec.decay_time_bytes,
            max_tokens=self.max_tokens,
            token_width=2 if vocab_size <= 1 << 16 else 4,
            note=note,
        )


class StateReader:
    """Turns stored records into states of the model that made them, and states into what a record holds.

    Args:
        form: of the records.
        backbone: the model; whoever calls has compared its fingerprint with the store's.
    """

    def __init__(self, form: RecordForm, backbone: Backbone) -> None:
        self._spec = backbone.spec
        self._codec = codec_named(form.codec)
        self._layers = LayerSubset.parse(form.layers, backbone.spec.layers)
        self._dtype = form.encoding_dtype
        # a reading is the chunk, once or twice, and a fixed number of tokens around it
        self._passes = 1 if form.encode_mode == "once" else 2
        self._extra_tokens = len(backbone.reading([backbone.tokenizer.encode("a")[0]])) - self._passes

    def encode(self, state: State) -> bytes:
        """The state bytes of a record."""
        return self._codec.encode(state, self._spec, self._layers)

    def state(self, record: Record, layers: LayerSubset | None = None) -> State:
        """The state of a record; layers that were not kept, or are not asked for, are zero."""
        state = self._codec.decode(
            record.state,
            self._spec,
            self._layers,
            num_tokens=self._passes * record.num_tokens + self._extra_tokens,
            decay_time=record.tau,
            encoding_dtype=self._dtype,
        )
        if layers is None or layers.is_all:
            return state
        recurrent = state.recurrent
        left_out = [layer for layer in range(layers.num_layers) if layer not in layers.indices]
        recurrent[left_out] = 0
        return State.adopt(
            recurrent,
            tail=state.tail,
            num_tokens=state.num_tokens,
            fingerprint=state.fingerprint,
            decay_time=state.decay_time,
            encoding_dtype=state.encoding_dtype,
        )

    def kept(self, state: State) -> State:
        """A state as it comes back from a record: rounded by the codec, layers that are not kept zero."""
        return self._codec.decode(
            self.encode(state),
            self._spec,
            self._layers,
            num_tokens=state.num_tokens,
            decay_time=state.decay_time.numpy(),
            encoding_dtype=self._dtype,
        )
