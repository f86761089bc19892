"""The model of a corpus, and the way from its stored records to states."""

from precog.backbones.hosted.backbone import fitted
from precog.backbones.protocol import Backbone
from precog.backbones.registry import installed_models
from precog.corpus.settings import CorpusSettings
from precog.errors import UsageError
from precog.records import ModelChoice, StateReader, check_backbone
from precog.store import CorpusStore
from precog.store.remedy import reindex_command


def open_model(settings: CorpusSettings, choice: ModelChoice) -> Backbone:
    """The model that was chosen, else the corpus's, else the installed one; its states have room for the chunks."""
    return fitted(
        choice.open(settings.model, settings.encode_mode, settings.template, settings.encoding_dtype),
        settings.chunk_tokens,
    )


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


def check_reads(backbone: Backbone, encode_mode: str) -> None:
    """Compares how a model reads chunks with how the chunks of a corpus that it is to make are wanted.

    Raises:
        UsageError: it was opened to read them otherwise.
    """
    if backbone.encode_mode != encode_mode:
        hint = "choose a quality that reads them so"
        message = f"the model is open to read chunks {backbone.encode_mode}"
        raise UsageError(message, given=encode_mode, expected=backbone.encode_mode, hint=hint)


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
