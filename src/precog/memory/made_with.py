"""What a memory was made with: settings, encoder and prototypes, which need no model."""

import json
from collections.abc import Mapping
from dataclasses import replace

from precog.encoders import Encoder, load_encoder
from precog.errors import DamagedCorpusError, UsageError
from precog.memory.prototypes import Prototypes
from precog.memory.settings import MemorySettings
from precog.records import check_encoder
from precog.store.memory import PROTOTYPES_ANEW, MemoryStore, StoredPrototypes

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
            flag = _FLAGS[key]
            hint = "leave it out, or begin another memory under another --user"
            if key != "alpha":
                hint += f"; `precog memory reindex {flag} {value}` changes it"
            kept = getattr(settings, key)
            raise UsageError(f"this memory was made with another {flag}", given=value, expected=kept, hint=hint)
    return settings


def encoder_of(settings: MemorySettings, chosen: str | Encoder | None = None) -> Encoder:
    """The encoder that was named or is open, else the memory's own.

    Raises:
        EncoderError: it is not the encoder that made the keys.
    """
    encoder = load_encoder(chosen or settings.encoder or None)
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
        raise DamagedCorpusError("the memory has lost its prototypes", given=store.path, hint=PROTOTYPES_ANEW)
    return Prototypes.from_json(json.loads(stored.text))


def stored(prototypes: Prototypes) -> StoredPrototypes:
    """Prototypes as the store keeps them."""
    return StoredPrototypes(json.dumps(prototypes.to_json(), sort_keys=True), prototypes.members)
