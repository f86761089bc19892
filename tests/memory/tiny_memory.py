"""A small memory: the tiny model, keys that count words."""

import datetime
from pathlib import Path

from made_keys import CountingEncoder

from precog.backbones.tenns.backbone import TennsBackbone
from precog.memory.chunking import MemoryChunk, chunks_of
from precog.memory.opened import OpenMemory
from precog.memory.settings import MemorySettings
from precog.memory.utterance import Utterance
from precog.store.memory import MemoryStore

MORNING = datetime.datetime(2026, 5, 4, 9, 0, tzinfo=datetime.UTC)


def open_memory(folder: Path, backbone: TennsBackbone, **settings: object) -> OpenMemory:
    encoder = CountingEncoder()
    made = MemorySettings("", "", encoder.fingerprint, **{"threshold": 0.0, **settings})  # type: ignore[arg-type]
    store = MemoryStore.open_or_create(
        folder,
        settings=made.to_json(),
        layout=made.form.layout(backbone.spec, backbone.tokenizer.vocab_size),
        fingerprint=bytes.fromhex(backbone.fingerprint),
        key_dim=encoder.dim,
    )
    return OpenMemory(store, made, backbone, encoder)


def said(*texts: str, speaker: str = "Ana") -> list[Utterance]:
    return [Utterance(text, MORNING + datetime.timedelta(minutes=n), speaker) for n, text in enumerate(texts)]


def chunks(memory: OpenMemory, utterances: list[Utterance]) -> list[MemoryChunk]:
    return list(chunks_of(utterances, memory.backbone.tokenizer, max_tokens=memory.settings.chunk_tokens))
