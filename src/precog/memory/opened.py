"""A user's memory with what belongs to it: settings, model, encoder, prototypes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder, load_encoder
from precog.errors import DamagedCorpusError, UsageError
from precog.memory.domains import read_seeds
from precog.memory.prototypes import Prototypes, from_seeds
from precog.memory.settings import MemorySettings
from precog.records import ModelChoice, StateReader, check_backbone, check_encoder
from precog.store.memory import MemoryStore, StoredPrototypes

_FLAGS = {"dial_a": "--dial-a", "dial_b": "--dial-b", "alpha": "--alpha", "budget_bytes": "--budget"}


def settings_of(store: MemoryStore, wanted: Mapping[str, object] | None = None) -> MemorySettings:
    """The settings of an open memory, compared with what a command line asks for; None asks for nothing.

    Raises:
        UsageError: a setting differs.
    """
    settings = MemorySettings.from_json(store.settings)
    asked = {key: value for key, value in (wanted or {}).items() if value is not None}
    replace(settings, **asked)  # type: ignore[arg-type]  # by name; what is out of range is told as that
    for key, value in asked.items():
        if value != getattr(settings, key):
            flag, hint = _FLAGS[key], "leave it out, or begin another memory under another --user"
            kept = getattr(settings, key)
            raise UsageError(f"this memory was made with another {flag}", given=value, expected=kept, hint=hint)
    return settings


def encoder_of(settings: MemorySettings, spec: str | Encoder | None = None) -> Encoder:
    """The encoder that was named, or is open already, else the memory's own.

    Raises:
        EncoderError: it is not the encoder that made the keys.
    """
    encoder = load_encoder(spec or settings.encoder or None) if spec is None or isinstance(spec, str) else spec
    hint = "use the encoder that made them, or make new keys: precog memory reindex --user USER --encoder …"
    check_encoder("memory", settings.encoder_fingerprint, settings.encoder, encoder, hint)
    return encoder


def prototypes_of(store: MemoryStore) -> Prototypes:
    """The prototypes that the memory routes by.

    Raises:
        DamagedCorpusError: there are none, or they cannot be read.
    """
    stored = store.prototypes()
    if stored is None:
        raise DamagedCorpusError("the memory has lost its prototypes", given=store.path)
    return Prototypes.from_json(json.loads(stored.text))


def stored(prototypes: Prototypes) -> StoredPrototypes:
    """Prototypes as the store keeps them."""
    return StoredPrototypes(json.dumps(prototypes.to_json(), sort_keys=True), prototypes.members)


class OpenMemory:
    """A memory that is open to write, with model and encoder.

    Attributes:
        store: open to write.
        settings: its own.
        backbone: the model.
        encoder: of its keys.
        prototypes: that it routes by.
        reader: from records to states and back.
    """

    def __init__(
        self,
        store: MemoryStore,
        settings: MemorySettings,
        backbone: Backbone,
        encoder: Encoder,
        *,
        prototypes: StoredPrototypes | None = None,
    ) -> None:
        check_model(store, settings, backbone)
        self.store = store
        self.settings = settings
        self.backbone = backbone
        self.encoder = encoder
        self.reader = StateReader(settings.form, backbone)
        if store.prototypes() is None:
            first = prototypes or stored(from_seeds(read_seeds(), encoder))
            if not any(first.members):  # those that were fitted are put when the deposits are there
                with store.batch() as batch:
                    batch.put_prototypes(first)
            self.prototypes = Prototypes.from_json(json.loads(first.text))
        else:
            self.prototypes = prototypes_of(store)

    @classmethod
    def open(
        cls,
        folder: Path,
        model: ModelChoice,
        *,
        encoder: str | Encoder | None = None,
        wanted: Mapping[str, object] | None = None,
        create: bool = False,
        wait_sec: float = 30.0,
    ) -> "OpenMemory":
        """Opens a memory to write, and makes it where there is none and ``create`` is set.

        Args:
            folder: of the user.
            model: that was chosen.
            encoder: that was named, or is open already.
            wanted: settings of `MemorySettings` that a command line names.
            create: make the memory.
            wait_sec: for another writer to finish.

        Raises:
            UsageError: a setting is out of range, or not the memory's.
            CorpusError: there is no memory, or something else is in its place.
            BusyError: another process is still writing.
            EncoderError, ForeignStateError: encoder or model are not those that made it.
        """
        if not create or MemoryStore.FOLDER(folder).exists:
            store = MemoryStore.open(folder, write=True, wait_sec=wait_sec)
            try:
                settings = settings_of(store, wanted)
                return cls(store, settings, model.open(settings.model, "once"), encoder_of(settings, encoder))
            except BaseException:
                store.close()
                raise
        given = {key: value for key, value in (wanted or {}).items() if value is not None}
        named = encoder if isinstance(encoder, str) else ""
        made = load_encoder(named or None) if encoder is None or isinstance(encoder, str) else encoder
        backbone = model.load("once")
        settings = MemorySettings(str(model.folder()), named, made.fingerprint)
        settings = replace(settings, encoding_dtype=backbone.encoding_dtype, **given)  # type: ignore[arg-type]  # by name
        store = MemoryStore.open_or_create(
            folder,
            settings=settings.to_json(),
            layout=settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size),
            fingerprint=bytes.fromhex(backbone.fingerprint),
            key_dim=made.dim,
            wait_sec=wait_sec,
        )
        try:
            return cls(store, settings_of(store, wanted), backbone, made)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> "OpenMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


@dataclass(frozen=True, eq=False)
class ReadMemory:
    """A memory that is open to read, beside anybody who writes, with model and encoder.

    Attributes:
        store: open to read.
        settings: its own.
        backbone: the model.
        encoder: of its keys.
        prototypes: that it routes by.
        reader: from records to states.
    """

    store: MemoryStore
    settings: MemorySettings
    backbone: Backbone
    encoder: Encoder
    prototypes: Prototypes
    reader: StateReader

    @classmethod
    def open(cls, folder: Path, model: ModelChoice, *, encoder: str | Encoder | None = None) -> "ReadMemory":
        """Opens a memory without its lock and without looking at its segments, and makes it where there is none.

        Raises:
            CorpusError: something else is in its place.
            BusyError: another process that is making it does not come to an end.
            EncoderError, ForeignStateError: encoder or model are not those that made it.
        """
        if not cls._is_made(folder):
            with OpenMemory.open(folder, model, encoder=encoder, create=True) as made:
                model, encoder = replace(model, loaded=made.backbone), made.encoder
        store = MemoryStore.open(folder)
        try:
            settings = settings_of(store)
            backbone = model.open(settings.model, "once")
            check_model(store, settings, backbone)
            keys = encoder_of(settings, encoder)
            return cls(store, settings, backbone, keys, prototypes_of(store), StateReader(settings.form, backbone))
        except BaseException:
            store.close()
            raise

    @staticmethod
    def _is_made(folder: Path) -> bool:
        if not MemoryStore.FOLDER(folder).exists:
            return False
        with MemoryStore.open(folder) as store:
            return store.has_prototypes


def check_model(store: MemoryStore, settings: MemorySettings, backbone: Backbone) -> None:
    """Compares a model with the one that made the states of a memory.

    Raises:
        ForeignStateError: it is another one.
    """
    hint = "use the model that made it, or read the stored texts again: precog memory reindex --user USER --model …"
    check_backbone("memory", store.fingerprint, settings.model, backbone, hint)
