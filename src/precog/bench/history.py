"""A memory of many deposits in seconds: the real store, real records and keys, states of random bits.

What it costs to open a memory depends on sizes, not on what a model has understood.
"""

import datetime
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from precog.backbones.protocol import Backbone
from precog.bench.synthetic import TextMaker
from precog.encoders import Encoder
from precog.errors import StorageError
from precog.memory.consolidate import folded
from precog.memory.domains import OTHERS
from precog.memory.opened import OpenMemory
from precog.memory.settings import MemorySettings
from precog.state import State
from precog.store.memory import DepositInfo, Group, Semantic

_BATCH_DEPOSITS = 2000
_POOL_STATES = 64
_TOKENS = 48
_WORDS = 12
_FREE_SHARE = 0.9
_KEY_BYTES = 3  # that SQLite takes for a byte of a key, text and indexes counted
_FIRST = datetime.datetime(2026, 1, 5, 9, 0, tzinfo=datetime.UTC)
OnDeposits = Callable[[int, int], None]


def create_memory(folder: Path, backbone: Backbone, encoder: Encoder, **settings: object) -> OpenMemory:
    """An empty memory of an open model and encoder, open to write, routed by the prototypes that are shipped."""
    made = MemorySettings("", "", encoder.fingerprint, encoding_dtype=backbone.encoding_dtype, **settings)  # type: ignore[arg-type]  # by name
    return OpenMemory.begin(folder, made, backbone, encoder)


def said_at(number: int) -> datetime.datetime:
    """When the utterance of that number was said: seven minutes after the one before."""
    return _FIRST + datetime.timedelta(minutes=7 * number)


def fill_memory(
    memory: OpenMemory,
    num_deposits: int,
    first: Group,
    *,
    seed: int = 0,
    on_deposits: OnDeposits = lambda done, total: None,
) -> None:
    """Adds deposits of synthetic text and random tokens, keys and states, and folds their semantic states.

    Args:
        memory: open to write.
        num_deposits: in large commit units.
        first: the sub-cluster of the first one; the others follow in turn over all there are.
        seed: of what is drawn.
        on_deposits: told how far it is.

    Raises:
        StorageError: there is no room for them.
    """
    store = memory.store
    needed = num_deposits * (store.layout.record_bytes + _KEY_BYTES * 4 * store.key_dim)
    free = shutil.disk_usage(store.folder).free
    if needed > _FREE_SHARE * free:
        given, expected = f"{free:,} bytes free", f"{needed:,} bytes"
        hint = "measure with fewer --deposits, or name a --folder on another disk"
        raise StorageError("there is no room for the memory to measure", given=given, expected=expected, hint=hint)
    maker, draw = TextMaker(seed), np.random.default_rng(seed)
    pool = [memory.reader.kept(state) for state in _random_states(memory.backbone, seed)]
    records = [(memory.reader.encode(state), state.decay_time.numpy()) for state in pool]
    domains = memory.prototypes.domains
    groups: list[Group] = [(entry.domain, entry.name) for entry in memory.prototypes.subclusters]
    groups += [(domain, OTHERS) for domain in domains]
    turn = groups.index(first)
    vocabulary = memory.backbone.tokenizer.vocab_size
    semantic: dict[Group, Semantic] = {}
    for start in range(0, num_deposits, _BATCH_DEPOSITS):
        count = min(_BATCH_DEPOSITS, num_deposits - start)
        tokens = draw.integers(3, vocabulary, (count, _TOKENS))
        keys = draw.standard_normal((count, 1, store.key_dim), np.float32)
        keys /= np.linalg.norm(keys, axis=2, keepdims=True)
        touched = set()
        with store.batch() as batch:
            for row in range(count):
                number = start + row
                group = groups[(turn + number) % len(groups)]
                number_id, _ = batch.add_deposit(_info(maker, seed, number, group), keys[row])
                state, tau = records[number % len(pool)]
                batch.add_state(number_id, _TOKENS, tokens[row], state=state, tau=tau)
                if group[1] != OTHERS:
                    before = semantic.get(group)
                    last, alpha = pool[number % len(pool)], memory.settings.alpha
                    semantic[group] = folded(before, number_id, group, last, alpha, memory.backbone.spec)
                    touched.add(group)
            for group in sorted(touched):
                batch.put_semantic(semantic[group])
        on_deposits(start + count, num_deposits)


def _info(maker: TextMaker, seed: int, number: int, group: Group) -> DepositInfo:
    at = said_at(number)
    text = maker.passage(_WORDS)
    return DepositInfo(
        uid=hashlib.sha256(f"{seed} {number}".encode()).digest(),
        text=text,
        header=f"[{at.isoformat()} | Ana] ",
        key_text=f"Ana: {text}",
        num_tokens=_TOKENS,
        domain=group[0],
        subcluster=group[1],
        probability=0.5,
        importance=0.0,
        created_at=at.timestamp(),
        time=at,
        speaker="Ana",
    )


def _random_states(backbone: Backbone, seed: int) -> list[State]:
    spec = backbone.spec
    generator = torch.Generator().manual_seed(seed)
    return [
        State(
            torch.randn(spec.layers, spec.reals_per_layer, generator=generator),
            tail=torch.zeros(spec.layers, *spec.tail_shape) if spec.carries_tail else None,
            num_tokens=_TOKENS,
            fingerprint=spec.fingerprint,
            decay_time=torch.rand(spec.layers, spec.decay_groups, generator=generator),
        )
        for _ in range(_POOL_STATES)
    ]
