"""A user's memory with what belongs to it: settings, model, encoder, prototypes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder, load_encoder
from precog.errors import ModelError
from precog.memory.damage import Damage, damage_of_segments, lost_prototypes
from precog.memory.made_with import encoder_of, prototypes_of, settings_of, stored
from precog.memory.place import make_place
from precog.memory.prototypes import Prototypes, own_prototypes
from precog.memory.settings import MemorySettings
from precog.memory.state_cost import check_dials
from precog.records import ModelChoice, StateReader, check_backbone
from precog.store.memory import MemoryStore, StoredPrototypes
from precog.text.tokenizer import Tokenizer


def first_settings(
    model: ModelChoice,
    backbone: Backbone,
    chosen: str | Encoder | None,
    encoder: Encoder,
    wanted: Mapping[str, object] | None = None,
) -> MemorySettings:
    """What a memory that is to be made is made with.

    Raises:
        UsageError: a setting is out of range.
        ModelError: states of the model cannot be averaged.
    """
    check_remembers(backbone)
    given = {key: value for key, value in (wanted or {}).items() if value is not None}
    settings = MemorySettings(str(model.folder()), chosen if isinstance(chosen, str) else "", encoder.fingerprint)
    template = "" if model.template is None else model.template.to_json()
    settings = replace(settings, encoding_dtype=backbone.encoding_dtype, template=template)
    return replace(settings, **given)  # type: ignore[arg-type]  # by name


def check_remembers(backbone: Backbone) -> None:
    """Refuses a model that cannot have a memory.

    Raises:
        ModelError: its states cannot be averaged, and semantic states are averages of episodes.
    """
    if not backbone.spec.averages:
        raise ModelError(
            "a memory consolidates by averaging states, and those of this model hold keys and values of attention, "
            "which are bound to their positions",
            given=backbone.card.name,
            expected="a model whose whole state is recurrent",
            hint="index documents with it instead: precog index",
        )


class OpenMemory:
    """A memory that is open to write, with model and encoder.

    Attributes:
        store: open to write.
        settings: its own.
        backbone: the model.
        encoder: of its keys.
        prototypes: that it routes by.
        reader: from records to states and back.
        reread: ids of deposits whose states were needed, and were damaged or gone, so that their texts were read again.
    """

    def __init__(
        self,
        store: MemoryStore,
        settings: MemorySettings,
        backbone: Backbone,
        encoder: Encoder,
        *,
        prototypes: StoredPrototypes | None = None,
        keeps_prototypes: bool = True,
    ) -> None:
        check_model(store, settings, backbone)
        self.store = store
        self.settings = settings
        self.backbone = backbone
        self.encoder = encoder
        self.reader = StateReader(settings.form, backbone)
        self.reread: set[int] = set()
        if not keeps_prototypes:
            self.prototypes = own_prototypes(encoder)
        elif lost_prototypes(store) and prototypes is None:
            self.prototypes = prototypes_of(store)  # raises: nobody knows whether those of the seeds would do
        elif not store.has_prototypes:
            first = prototypes or stored(own_prototypes(encoder))
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
        keeps_prototypes: bool = True,
        wait_sec: float = 30.0,
        before_making: Callable[[Tokenizer, MemorySettings], None] = lambda tokenizer, settings: None,
    ) -> "OpenMemory":
        """Opens a memory to write, and makes it where there is none and ``create`` is set.

        Args:
            folder: of the user.
            model: that was chosen.
            encoder: that was named, or is open already.
            wanted: settings of `MemorySettings` that a command line names.
            create: make the memory.
            keeps_prototypes: unless whoever opens it replaces them: then the seeds' are at hand, and those that are
                stored are not read, damaged or not.
            wait_sec: for another writer to finish.
            before_making: told what the memory is to be made with; what it raises leaves nothing behind.

        Raises:
            UsageError: a setting is out of range, or not the memory's, or does not fit the budget.
            CorpusError: there is no memory, or something else is in its place.
            BusyError: another process is still writing.
            EncoderError, ForeignStateError: encoder or model are not those that made it.
        """
        if not create or MemoryStore.FOLDER(folder).exists:
            store = MemoryStore.open(folder, write=True, wait_sec=wait_sec, allow_damaged=True)
            try:
                settings = settings_of(store, wanted)
                backbone = model.open(settings.model, "once", settings.template, settings.encoding_dtype)
                made = encoder_of(settings, encoder)
                return cls(store, settings, backbone, made, keeps_prototypes=keeps_prototypes)
            except BaseException:
                store.close()
                raise
        backbone, made = model.load("once"), load_encoder(encoder)
        settings = first_settings(model, backbone, encoder, made, wanted)
        before_making(backbone.tokenizer, settings)
        memory = cls.begin(folder, settings, backbone, made, wait_sec=wait_sec)
        try:
            settings_of(memory.store, wanted)  # somebody else may have begun it meanwhile
        except BaseException:
            memory.store.close()
            raise
        return memory

    @property
    def damage(self) -> Damage:
        """What was found damaged of its states; their texts stand in for them."""
        return damage_of_segments(self.store.damage) + Damage(states=tuple(sorted(self.reread)))

    @classmethod
    def begin(
        cls,
        folder: Path,
        settings: MemorySettings,
        backbone: Backbone,
        encoder: Encoder,
        *,
        prototypes: Prototypes | None = None,
        wait_sec: float = 30.0,
    ) -> "OpenMemory":
        """Makes a memory, with what is above it, and opens it to write; one that was begun meanwhile is opened.

        Args:
            folder: of the user.
            settings: to make it with.
            backbone: the model.
            encoder: of its keys.
            prototypes: to route by, where they are made already; None for those of the seeds.
            wait_sec: for another writer to finish.

        Raises:
            UsageError: the states of one chunk do not fit into the budget.
            CorpusError: something else is in its place.
            BusyError: another process is still writing.
            EncoderError, ForeignStateError: another encoder or model made the one that was begun meanwhile.
            StorageError: the disk refuses.
        """
        layout = settings.form.layout(backbone.spec, backbone.tokenizer.vocab_size)
        check_dials(settings, layout.record_bytes)
        make_place(folder)
        store = MemoryStore.open_or_create(
            folder,
            settings=settings.to_json(),
            layout=layout,
            fingerprint=bytes.fromhex(backbone.fingerprint),
            key_dim=encoder.dim,
            wait_sec=wait_sec,
        )
        try:
            found = settings_of(store)
            first = None if prototypes is None else stored(prototypes)
            return cls(store, found, backbone, encoder_of(found, encoder), prototypes=first)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> "OpenMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


def check_model(store: MemoryStore, settings: MemorySettings, backbone: Backbone) -> None:
    """Compares a model with the one that made the states of a memory.

    Raises:
        ForeignStateError: it is another one.
    """
    hint = "use the model that made it, or read the stored texts again: precog memory reindex --user USER --model …"
    check_backbone("memory", store.fingerprint, settings.model, backbone, hint)
