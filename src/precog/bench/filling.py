"""A corpus of many chunks in seconds: real store, real records, states of random bits.

What a search and a read cost depends on sizes, not on what a model has understood, so that only the chunks that are
asked for need to be read by one.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.bench.synthetic import Fact, TextMaker
from precog.corpus.settings import CorpusSettings
from precog.encoders import Encoder
from precog.engine.suffixes import build_suffix_array
from precog.errors import InputError, StorageError
from precog.state import Codec, State, StateSpec, codec_named
from precog.store import ChunkInfo, CorpusStore, DocumentInfo

CHUNK_TOKENS = 256
_VOCABULARY = 32_000
_WORDS = 180  # in 256 tokens of English
_FACT_WORDS = 80  # made-up words have more tokens
_BATCH_CHUNKS = 200
_FREE_SHARE = 0.9


@contextlib.contextmanager
def temporary_room(folder: Path | None) -> Iterator[Path]:
    """A folder for what is made to be measured, gone afterwards; in ``folder``, or in the system's own place.

    Raises:
        InputError: there can be none.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix="precog-bench-", dir=folder)
    except OSError as error:
        given = f"{folder or tempfile.gettempdir()} ({error.strerror})"
        raise InputError(
            "no temporary folder can be made there", given=given, hint="name another with --folder"
        ) from error
    with made as name:
        yield Path(name)


def create_store(folder: Path, spec: StateSpec, *, encoder_fingerprint: str, key_dim: int) -> CorpusStore:
    """An empty corpus for FP16 states of a spec.

    Raises:
        CorpusError, StorageError: as `CorpusStore.create`.
    """
    settings = CorpusSettings("", "", encoder_fingerprint, chunk_tokens=CHUNK_TOKENS)
    return CorpusStore.create(
        folder,
        settings=settings.to_json(),
        layout=settings.form.layout(spec, _VOCABULARY),
        fingerprint=bytes.fromhex(spec.fingerprint),
        key_dim=key_dim,
    )


def fill(store: CorpusStore, spec: StateSpec, num_chunks: int, *, seed: int = 0) -> float:
    """Adds chunks of random state, key and tokens and of synthetic text; returns the seconds of writing.

    Raises:
        StorageError: there is no room for them.
    """
    needed, free = num_chunks * store.layout.record_bytes, shutil.disk_usage(store.folder).free
    if needed > _FREE_SHARE * free:
        hint = "measure with fewer chunks, or name a folder on another disk"
        given, expected = f"{free:,} bytes free", f"{needed:,} bytes"
        raise StorageError("there is no room for the corpus to measure", given=given, expected=expected, hint=hint)
    maker, draw, states = TextMaker(seed), np.random.default_rng(seed), _random_states(spec, seed)
    tau = np.zeros(spec.layers * spec.decay_groups, np.float32)
    written_sec = 0.0
    for start in range(0, num_chunks, _BATCH_CHUNKS):
        count = min(_BATCH_CHUNKS, num_chunks - start)
        texts = [maker.passage(_WORDS) for _ in range(count)]
        tokens = draw.integers(3, _VOCABULARY, (count, CHUNK_TOKENS))
        keys = _unit(draw.standard_normal((count, store.key_dim), np.float32))
        begun = time.perf_counter()
        with store.batch() as batch:
            row = batch.begin_document(_document(f"synthetic {start}")).id
            for ordinal, text in enumerate(texts):
                state_id = batch.add_state(tokens[ordinal], state=next(states), tau=tau)
                described = ChunkInfo(ordinal, None, (0, len(text)), text)
                batch.add_chunk(row, described, state_id=state_id, keys=keys[ordinal : ordinal + 1])
            batch.finish_document(row)
        written_sec += time.perf_counter() - begun
    return written_sec


def add_facts(store: CorpusStore, backbone: Backbone, encoder: Encoder, count: int, *, seed: int = 1) -> list[Fact]:
    """Adds chunks that the model has read and the encoder has keyed, one per fact, and returns the facts."""
    facts = TextMaker(seed).facts(count, _FACT_WORDS)
    codec = codec_named("fp16")
    chunks = [backbone.tokenizer.encode(fact.passage)[:CHUNK_TOKENS] for fact in facts]
    states = backbone.encode_chunks(chunks)
    keys = encoder.encode_passages([fact.passage for fact in facts])
    with store.batch() as batch:
        row = batch.begin_document(_document("facts")).id
        for ordinal, (fact, chunk, state) in enumerate(zip(facts, chunks, states, strict=True)):
            data, tau = codec.encode(state, backbone.spec), state.decay_time.numpy()
            state_id = batch.add_state(chunk, state=data, tau=tau, suffix_array=build_suffix_array(chunk))
            described = ChunkInfo(ordinal, None, (0, len(fact.passage)), fact.passage)
            batch.add_chunk(row, described, state_id=state_id, keys=keys[ordinal])
        batch.finish_document(row)
    return facts


def _random_states(spec: StateSpec, seed: int) -> Iterator[bytes]:
    """Encoded states without end: the reals of one, rotated by one more each time."""
    generator = torch.Generator().manual_seed(seed)
    state = State(
        torch.randn(spec.layers, spec.reals_per_layer, generator=generator),
        tail=torch.zeros(spec.layers, *spec.tail_shape) if spec.carries_tail else None,
        num_tokens=1,
        fingerprint=spec.fingerprint,
        decay_time=torch.zeros(spec.layers, spec.decay_groups),
    )
    codec: Codec = codec_named("fp16")
    data, size = codec.encode(state, spec), codec.state_bytes(spec)
    shift = 0
    while True:
        yield data[shift:size] + data[:shift] + data[size:]
        shift = (shift + 2) % size


def _unit(rows: Float32[np.ndarray, "n E"]) -> Float32[np.ndarray, "n E"]:
    unit: Float32[np.ndarray, "n E"] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _document(source: str) -> DocumentInfo:
    return DocumentInfo(source, "text/plain", b"\0" * 32, 0, 0)
