"""Small corpora for the tests of this folder."""

import numpy as np

from precog.store import ChunkInfo, CorpusStore, DocumentInfo, RecordLayout

STATE_BYTES, NUM_TAU, MAX_TOKENS, DIM = 600, 6, 20, 4
LAYOUT = RecordLayout(STATE_BYTES, 4 * NUM_TAU, MAX_TOKENS, 2, {"codec": "fp16", "layers": [0, 1]})
FINGERPRINT = bytes(range(32))
RECORDS_PER_SEGMENT = 5
SEGMENT_BYTES = 4096 + RECORDS_PER_SEGMENT * LAYOUT.record_bytes + 17


def create(path, **changes):
    options = {
        "settings": {"chunk_tokens": MAX_TOKENS},
        "layout": LAYOUT,
        "fingerprint": FINGERPRINT,
        "key_dim": DIM,
        "max_segment_bytes": SEGMENT_BYTES,
        "wait_sec": 0.0,
    }
    return CorpusStore.create(path, **{**options, **changes})


def tokens_of(seed):
    return np.random.default_rng(seed).integers(0, 32000, 3 + seed % 17)


def parts_of(seed):
    """State, tau and suffix array that belong to the tokens of ``seed``."""
    rng = np.random.default_rng(seed + 10_000)
    ids = tokens_of(seed)
    suffixes = np.array(sorted(range(len(ids)), key=lambda i: ids[i:].tolist()))
    state = rng.integers(0, 256, STATE_BYTES, dtype=np.uint8)
    return {"state": state, "tau": rng.random(NUM_TAU, dtype=np.float32), "suffix_array": suffixes}


def key_of(seed, windows=1):
    keys = np.random.default_rng(seed + 20_000).standard_normal((windows, DIM)).astype(np.float32)
    return keys / np.linalg.norm(keys, axis=1, keepdims=True)


def info_of(source, content=b"x"):
    return DocumentInfo(source, "text/plain", content * 32, 10, 20, {"title": source})


def text_of(source, seed):
    return f"the text of {source}, chunk made of seed {seed:06d}"


def add_document(batch, source, seeds, *, finish=True, content=b"x"):
    """A document with one chunk per seed; equal seeds read equal tokens."""
    document = batch.begin_document(info_of(source, content))
    for ordinal, seed in list(enumerate(seeds))[document.num_chunks :]:
        state_id = batch.add_state(tokens_of(seed), **parts_of(seed))
        chunk = ChunkInfo(ordinal, 1 + ordinal, (ordinal * 10, ordinal * 10 + 10), text_of(source, seed), "a heading")
        batch.add_chunk(document.id, chunk, state_id=state_id, keys=key_of(seed, 1 + seed % 2))
    if finish:
        batch.finish_document(document.id)
    return document.id


def fill(store, num_documents=4, chunks_each=3):
    """Some documents, a commit unit each."""
    for number in range(num_documents):
        with store.batch() as batch:
            add_document(batch, f"doc{number}.txt", range(number * chunks_each, (number + 1) * chunks_each))


def segment_bytes(store_path):
    return {p.name: p.read_bytes() for p in sorted(store_path.glob("*/segments/*.seg"))}


def fill_with_parts(store, details=None):
    """Two documents; the chunks of the first have parts, one of which says what the second document says.

    ``details`` of these chunks say how many parts they have, or nothing, as in corpora older than that number.
    """
    with store.batch() as batch:
        document = batch.begin_document(info_of("parts.txt"))
        for ordinal, seed in enumerate((3, 4)):
            state_id = batch.add_state(tokens_of(seed), **parts_of(seed))
            span = (ordinal * 60, ordinal * 60 + 60)
            chunk = ChunkInfo(ordinal, None, span, text_of("parts.txt", seed), "", details or {})
            chunk_id = batch.add_chunk(document.id, chunk, state_id=state_id, keys=key_of(seed))
            for number, own in enumerate((10 * seed, 10 * seed + 1, 8)):
                part_id = batch.add_state(tokens_of(own), **parts_of(own))
                span = (number * 12, number * 12 + 11)
                batch.add_part(chunk_id, number, span, state_id=part_id, keys=key_of(own, 1 + number % 2))
        batch.finish_document(document.id)
    with store.batch() as batch:
        add_document(batch, "other.txt", [8])
