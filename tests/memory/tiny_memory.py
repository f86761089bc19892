"""A small memory: the tiny model, keys that count words."""

import datetime
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from made_keys import CountingEncoder

from precog.backbones.tenns.backbone import TennsBackbone
from precog.memory.chunking import MemoryChunk, chunks_of
from precog.memory.consolidate import refold
from precog.memory.domains import OTHERS
from precog.memory.forget import Forgotten, forget
from precog.memory.made_with import prototypes_of
from precog.memory.opened import OpenMemory
from precog.memory.prototypes import mean_key
from precog.memory.routing import route
from precog.memory.settings import MemorySettings
from precog.memory.utterance import Utterance

MORNING = datetime.datetime(2026, 5, 4, 9, 0, tzinfo=datetime.UTC)


def open_memory(folder: Path, backbone: TennsBackbone, **settings: object) -> OpenMemory:
    encoder = CountingEncoder()
    made = MemorySettings("", "", encoder.fingerprint, **{"threshold": 0.0, **settings})  # type: ignore[arg-type]
    return OpenMemory.begin(folder, made, backbone, encoder)


def said(*texts: str, speaker: str = "Ana") -> list[Utterance]:
    return [Utterance(text, MORNING + datetime.timedelta(minutes=n), speaker) for n, text in enumerate(texts)]


def chunks(memory: OpenMemory, utterances: list[Utterance]) -> list[MemoryChunk]:
    return list(chunks_of(utterances, memory.backbone.tokenizer, max_tokens=memory.settings.chunk_tokens))


def groups(memory: OpenMemory) -> dict[str, tuple[str, str, float]]:
    """Text ▸ where it is."""
    return {entry.info.text: (*entry.info.group, entry.info.probability) for entry in memory.store.deposits()}


def semantic(memory: OpenMemory) -> dict[tuple[str, str], tuple[bytes, bytes, int, int]]:
    return {
        entry.group: (entry.recurrent.tobytes(), entry.decay_time.tobytes(), entry.num_deposits, entry.num_tokens)
        for entry in memory.store.semantic_states()
    }


def everything(memory: OpenMemory) -> dict[str, object]:
    """All that a memory holds, bit for bit, with texts for ids: two that hold the same have the same of it."""
    store, prototypes = memory.store, memory.prototypes
    text_of = {entry.id: entry.info.text for entry in store.deposits()}

    def newest(number: int) -> str | None:
        return text_of[number] if number else None

    history = prototypes.history
    return {
        "groups": groups(memory),
        "semantic": semantic(memory),
        "states": {
            (text, position): store.read_state(number, position).state.tobytes()
            for number, text in text_of.items()
            for position in store.states_of(number)
        },
        "domains": (prototypes.domains, prototypes.domain_keys.tobytes()),
        "prototypes": [
            (subcluster, key.tobytes(), [text_of[member] for member in members])
            for subcluster, key, members in zip(
                prototypes.subclusters, prototypes.keys, prototypes.members, strict=True
            )
        ],
        "fit": history.fit and (replace(history.fit, last_id=0), newest(history.fit.last_id)),
        "promotions": [(replace(step, last_id=0), newest(step.last_id)) for step in history.promotions],
    }


def check_consistent(memory: OpenMemory) -> None:
    """Every deposit is where the prototypes route it, every semantic state what folding gives."""
    assert prototypes_of(memory.store).to_json() == memory.prototypes.to_json()
    keys = {entry.deposit_id: mean_key(entry.keys) for entry in memory.store.iter_keys()}
    temperature = memory.settings.temperature_of(memory.prototypes)
    for entry in memory.store.deposits():
        routed = route(keys[entry.id], memory.prototypes, temperature=temperature, threshold=memory.settings.threshold)
        assert (*entry.info.group, entry.info.probability) == (routed.domain, routed.subcluster, routed.probability)
        dial = memory.settings.dial_in(entry.info.group, memory.prototypes)
        assert memory.store.states_of(entry.id) in ([], list(dial.positions(entry.info.num_tokens)))
    wanted = {(size.domain, size.subcluster) for size in memory.store.subclusters() if size.subcluster != OTHERS}
    assert set(semantic(memory)) == wanted
    for group, found in semantic(memory).items():
        members = memory.store.deposits(domain=group[0], subcluster=group[1])
        again = refold(memory.store, members, group, memory.settings.alpha, memory.backbone, memory.reader)
        assert again is not None
        assert again.recurrent.tobytes() == found[0]


def forget_texts(memory: OpenMemory, texts: Iterable[str], *, proof: bool = False) -> Forgotten:
    gone = set(texts)
    return forget(memory, [entry for entry in memory.store.deposits() if entry.info.text in gone], proof=proof)
