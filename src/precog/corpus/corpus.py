"""A corpus with what belongs to it and needs no model: settings, encoder, index.

Each part is loaded when it is first needed: listing needs none of them, searching no model, and asking all.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Float32

from precog.corpus.settings import CorpusSettings
from precog.corpus.sources import title_of
from precog.encoders import Encoder, load_encoder
from precog.index import HybridIndex, IndexSource
from precog.questions.found_by import words_text
from precog.records import check_encoder
from precog.store import CorpusStore
from precog.store.remedy import reindex_command


def open_encoder(store: CorpusStore, settings: CorpusSettings, chosen: str | Encoder | None = None) -> Encoder:
    """The encoder that was named or is open, else the corpus's own.

    Raises:
        EncoderError: it is not the encoder that made the keys.
    """
    named = (chosen if isinstance(chosen, str) else "") or settings.encoder
    encoder = load_encoder(chosen or settings.encoder or None)
    command = reindex_command(store.path, *(["--encoder", named] if named else []))
    hint = f"use the encoder that made them, or make new keys: {command}"
    check_encoder("corpus", settings.encoder_fingerprint, settings.encoder, encoder, hint)
    return encoder


def index_source(store: CorpusStore, encoder_fingerprint: str) -> IndexSource:
    """The catalogue as an index sees it."""
    kind = settings_of(store).keys

    def keys(wanted: Sequence[int] | None) -> Iterable[tuple[int, Float32[np.ndarray, "_ E"]]]:
        return ((entry.chunk_id, entry.keys) for entry in store.iter_keys(wanted))

    def texts(wanted: Sequence[int] | None) -> Iterable[tuple[int, str]]:
        for entry in store.iter_texts(wanted):
            title = title_of(entry.source)
            yield entry.chunk_id, words_text(kind, entry.text, title=title, context=entry.context)

    tag = f"{encoder_fingerprint} {store.corpus_id}"  # the files of another corpus are of the same encoder, too
    return IndexSource(
        store.visible_chunk_ids, keys, texts, store.generation, tag, store.key_dim, commit_of=store.commit_of
    )


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
