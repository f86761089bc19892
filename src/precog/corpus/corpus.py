"""A corpus with what belongs to it: settings, encoder, index, and the way from a stored record to a state.

Each part is loaded when it is first needed: listing needs none of them, searching no model, and asking all.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.backbones.registry import installed_models
from precog.corpus.settings import CorpusSettings
from precog.encoders import Encoder, load_encoder
from precog.index import HybridIndex, IndexSource
from precog.records import ModelChoice, StateReader, check_backbone, check_encoder
from precog.store import CorpusStore
from precog.store.remedy import reindex_command


def open_model(settings: CorpusSettings, choice: ModelChoice) -> Backbone:
    """The model that was chosen, else the one that made the corpus, else the installed one."""
    return choice.open(settings.model, settings.encode_mode)


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
    if store.fingerprint.hex() == backbone.fingerprint:
        return  # all that follows is for the error
    installed = {str(folder.resolve()): name for name, folder in installed_models().items()}
    command = reindex_command(store.path, *([] if named is None else ["--model", named]))
    hint = f"use the model that made it, or read the stored text again: {command}"
    check_backbone("corpus", store.fingerprint, installed.get(settings.model, settings.model), backbone, hint)


def open_encoder(store: CorpusStore, settings: CorpusSettings, spec: str | None = None) -> Encoder:
    """The encoder that was named, else the corpus's own.

    Raises:
        EncoderError: it is not the encoder that made the keys.
    """
    encoder = load_encoder(spec or settings.encoder or None)
    named = spec or settings.encoder
    command = reindex_command(store.path, *(["--encoder", named] if named else []))
    hint = f"use the encoder that made them, or make new keys: {command}"
    check_encoder("corpus", settings.encoder_fingerprint, settings.encoder, encoder, hint)
    return encoder


def state_reader(
    store: CorpusStore, settings: CorpusSettings, backbone: Backbone, *, named: str | None = None
) -> StateReader:
    """The way from records of a corpus to states.

    Args:
        store: the corpus.
        settings: its own.
        backbone: the model that made it.
        named: what the user called that model, for the error; None when nobody named one.

    Raises:
        ForeignStateError: the corpus was made by another model.
    """
    check_model(store, settings, backbone, named)
    return StateReader(settings.form, backbone)


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
    HybridIndex.refresh(store.folder, index_source(store, encoder_fingerprint))


def settings_of(store: CorpusStore, wanted: Mapping[str, object] | None = None) -> CorpusSettings:
    """The settings of an open corpus, compared with what a command line asks for."""
    settings = CorpusSettings.from_json(store.settings)
    settings.check(wanted or {}, store.path)
    return settings
