"""A corpus with what belongs to it: settings, encoder, index, and the way from a stored record to a state.

Each part is loaded when it is first needed: listing needs none of them, searching no model, and asking all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.backbones.registry import find_model, installed_models, load_backbone
from precog.corpus.settings import CorpusSettings
from precog.encoders import Encoder, load_encoder
from precog.errors import EncoderError, ForeignStateError, ModelError
from precog.index import HybridIndex, IndexSource
from precog.state import LayerSubset, State, StateSpec, codec_named, titled
from precog.store import CorpusStore, Record, RecordLayout
from precog.store.remedy import reindex_command


@dataclass(frozen=True)
class ModelChoice:
    """Which model to open, and how; None leaves it to the corpus, the environment or the installation.

    Attributes:
        name: folder or installed name.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        threads: CPU threads.
    """

    name: str | None = None
    device: str = "auto"
    threads: int | None = None

    def load(self, encode_mode: str) -> Backbone:
        """Opens the model."""
        return load_backbone(self.name, encode_mode=encode_mode, device=self.device, threads=self.threads)

    def folder(self) -> Path:
        """Where the model is."""
        return find_model(self.name)


def open_model(settings: CorpusSettings, choice: ModelChoice) -> Backbone:
    """The model that was chosen, else the one that made the corpus, else the installed one."""
    if choice.name is None:
        try:
            found = find_model(settings.model)
        except ModelError:
            found = find_model()
        choice = replace(choice, name=str(found))
    return choice.load(settings.encode_mode)


def check_model(store: CorpusStore, settings: CorpusSettings, backbone: Backbone, named: str | None) -> None:
    """Compares a model with the one that made the states of a corpus.

    Args:
        store: the corpus.
        settings: its own.
        backbone: the model that is to use it.
        named: what the user called the model; None when nobody named one.

    Raises:
        ForeignStateError: it is another model; the error names both, and the command that reads the text again.
    """
    made_by = store.fingerprint.hex()
    if made_by == backbone.fingerprint:
        return
    installed = {str(folder.resolve()): name for name, folder in installed_models().items()}
    command = reindex_command(store.path, *([] if named is None else ["--model", named]))
    raise ForeignStateError(
        "this corpus was made by another model, tokenizer, config or template",
        given=titled(backbone.card.name, backbone.fingerprint),
        expected=titled(installed.get(settings.model, settings.model), made_by),
        hint=f"use the model that made it, or read the stored text again: {command}",
    )


def open_encoder(store: CorpusStore, settings: CorpusSettings, spec: str | None = None) -> Encoder:
    """The encoder that was named, else the corpus's own.

    Raises:
        EncoderError: it is not the encoder that made the keys.
    """
    encoder = load_encoder(spec or settings.encoder or None)
    if encoder.fingerprint != settings.encoder_fingerprint:
        named = spec or settings.encoder
        command = reindex_command(store.path, *(["--encoder", named] if named else []))
        raise EncoderError(
            "the keys of this corpus were made by another sentence encoder",
            given=titled(encoder.name, encoder.fingerprint),
            expected=titled(settings.encoder or "the default encoder", settings.encoder_fingerprint),
            hint=f"use the encoder that made them, or make new keys: {command}",
        )
    return encoder


def record_layout(spec: StateSpec, settings: CorpusSettings, vocab_size: int) -> RecordLayout:
    """Sizes of a record and, for readers of the format, what its state bytes mean."""
    layers = LayerSubset.parse(settings.layers, spec.layers)
    codec = codec_named(settings.codec)
    note: dict[str, object] = {
        "codec": settings.codec,
        "layers": list(layers.indices),
        "reals_per_layer": spec.stored_reals_per_layer,
        "tau": [spec.layers, spec.decay_groups],
        "encoding_dtype": settings.encoding_dtype,
    }
    return RecordLayout(
        state_bytes=codec.encoded_bytes(spec, layers),
        tau_bytes=spec.decay_time_bytes,
        max_tokens=settings.chunk_tokens,
        token_width=2 if vocab_size <= 1 << 16 else 4,
        note=note,
    )


class StateReader:
    """Turns stored records into states of a model.

    Args:
        store: the corpus.
        settings: its own.
        backbone: the model that made it.
        named: what the user called that model, for the error; None when nobody named one.

    Raises:
        ForeignStateError: the corpus was made by another model.
    """

    def __init__(
        self, store: CorpusStore, settings: CorpusSettings, backbone: Backbone, *, named: str | None = None
    ) -> None:
        check_model(store, settings, backbone, named)
        self._spec = backbone.spec
        self._codec = codec_named(settings.codec)
        self._layers = LayerSubset.parse(settings.layers, backbone.spec.layers)
        self._dtype = settings.encoding_dtype
        # a reading is the chunk, once or twice, and a fixed number of tokens around it
        self._passes = 1 if settings.encode_mode == "once" else 2
        self._extra_tokens = len(backbone.reading([backbone.tokenizer.encode("a")[0]])) - self._passes

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


def index_source(store: CorpusStore, encoder_fingerprint: str) -> IndexSource:
    """The catalogue as an index sees it."""

    def keys(wanted: Sequence[int] | None) -> Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]:
        return ((entry.chunk_id, entry.keys) for entry in store.iter_keys(wanted))

    def texts(wanted: Sequence[int] | None) -> Iterable[tuple[int, str]]:
        return ((entry.chunk_id, entry.context + entry.text) for entry in store.iter_texts(wanted))

    tag = f"{encoder_fingerprint} {store.corpus_id}"  # the files of another corpus are of the same encoder, too
    return IndexSource(store.visible_chunk_ids, keys, texts, store.generation, tag, store.key_dim)


def refresh_index(store: CorpusStore, encoder_fingerprint: str) -> None:
    """Brings the index files of a corpus that is open to write up to date; writes nothing when they are.

    Raises:
        StorageError: the disk is full or refuses; the index is rebuilt from the catalogue the next time.
    """
    source = index_source(store, encoder_fingerprint)
    index, problem = HybridIndex.open(store.folder, source)
    if problem is not None:
        index.save(store.folder, generation=source.generation, tag=source.tag)


def settings_of(store: CorpusStore, wanted: Mapping[str, object] | None = None) -> CorpusSettings:
    """The settings of an open corpus, compared with what a command line asks for."""
    settings = CorpusSettings.from_json(store.settings)
    settings.check(wanted or {}, store.path)
    return settings
