"""Records ▸ states of the model that made them, and back."""

from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.errors import ForeignStateError
from precog.records.form import RecordForm
from precog.records.model_choice import is_lost
from precog.state import LayerSubset, State, codec_named, titled
from precog.store import Record


def check_backbone(what: str, made_by: bytes, name: str, backbone: Backbone, hint: str) -> None:
    """Compares a model with the one that made the states.

    Args:
        what: "corpus" or "memory".
        made_by: fingerprint that the folder keeps.
        name: of the model that made it.
        backbone: the model that is to use it.
        hint: what to do where they differ.

    Raises:
        ForeignStateError: it is another model; the error names both.
    """
    if made_by.hex() != backbone.fingerprint:
        if is_lost(name):
            hint = f"nothing is at {name} any more: say where the model is now with --model DIR"
        raise ForeignStateError(
            f"this {what} was made by another model, tokenizer, config or template",
            given=titled(backbone.card.name, backbone.fingerprint),
            expected=titled(name, made_by.hex()) + ("" if _is_there(name) else ", whose folder is gone"),
            hint=hint,
        )


def _is_there(name: str) -> bool:
    """Whether the path that a folder notes for its model is still one; a mere name is looked up elsewhere."""
    return not Path(name).is_absolute() or Path(name).exists()


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
        one = len(backbone.reading([backbone.tokenizer.encode("a")[0]]))
        self._extra_tokens = one - self._passes + backbone.empty_state().num_tokens

    @property
    def keeps_all_layers(self) -> bool:
        """Whether no layer was left out."""
        return self._layers.is_all

    @property
    def keeps_states(self) -> bool:
        """Whether what is stored counts as what reading leaves: every layer, in 16 bits or more."""
        return self.keeps_all_layers and self._codec.name in ("fp32", "fp16")

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
        return _only(state, layers)

    def kept(self, state: State, layers: LayerSubset | None = None) -> State:
        """A state as it comes back from a record: rounded by the codec, layers that are not kept zero."""
        back = self._codec.decode(
            self.encode(state),
            self._spec,
            self._layers,
            num_tokens=state.num_tokens,
            decay_time=state.decay_time.numpy(),
            encoding_dtype=self._dtype,
        )
        return _only(back, layers)


def _only(state: State, layers: LayerSubset | None) -> State:
    """The state with all other layers zero."""
    if layers is None or layers.is_all:
        return state
    recurrent = state.recurrent
    recurrent[[layer for layer in range(layers.num_layers) if layer not in layers.indices]] = 0
    return State.adopt(
        recurrent,
        tail=state.tail,
        num_tokens=state.num_tokens,
        fingerprint=state.fingerprint,
        decay_time=state.decay_time,
        encoding_dtype=state.encoding_dtype,
    )
