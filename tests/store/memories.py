"""Small memories for the tests of this folder."""

import datetime
import hashlib

import numpy as np

from precog.store import RecordLayout
from precog.store.memory import DepositInfo, MemoryStore, Semantic

STATE_BYTES, NUM_TAU, MAX_TOKENS, DIM = 600, 6, 24, 4
LAYOUT = RecordLayout(STATE_BYTES, 4 * NUM_TAU, MAX_TOKENS, 2, {"codec": "fp16", "layers": [0, 1]})
FINGERPRINT = bytes(range(32))
SEGMENT_BYTES = 4096 + 5 * LAYOUT.record_bytes + 17
SPEAKERS = ("Caroline", "Melanie")
GROUPS = (("spatial", "home"), ("social", "family"), ("social", "others"))
DAY_SEC = 86_400.0
START = datetime.datetime(2023, 5, 8, 13, 56, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


OPTIONS = {
    "settings": {"alpha": 0.1, "encoder": "words"},
    "layout": LAYOUT,
    "fingerprint": FINGERPRINT,
    "key_dim": DIM,
    "max_segment_bytes": SEGMENT_BYTES,
}


def create(path, **changes):
    return MemoryStore.create(path, **{**OPTIONS, "wait_sec": 0.0, **changes})


def text_of(seed):
    return f"seed {seed:06d}: the spare key is under the blue flowerpot of house {seed * 7919:09d}"


def tokens_of(seed):
    return np.random.default_rng(seed).integers(1, 32000, 4 + seed % 20)


def info_of(seed, **changes):
    time = START + datetime.timedelta(days=seed)
    domain, subcluster = GROUPS[seed % 3]
    values = {
        "uid": hashlib.sha256(b"deposit %d" % seed).digest(),
        "text": text_of(seed),
        "header": f"[{time.isoformat()} | {SPEAKERS[seed % 2]}] ",
        "key_text": f"{SPEAKERS[seed % 2]}: {text_of(seed)}",
        "num_tokens": len(tokens_of(seed)),
        "domain": domain,
        "subcluster": subcluster,
        "probability": 0.25 + seed % 3 / 10,
        "importance": seed % 5 / 4,
        "created_at": 1.7e9 + seed,
        "time": time,
        "speaker": SPEAKERS[seed % 2],
        "place": "Oslo" if seed % 4 else None,
        "reference": f"D1:{seed}",
        "details": {"resolved": [["yesterday", "2023-05-07"]]},
    }
    return DepositInfo(**{**values, **changes})


def keys_of(seed, windows=None):
    windows = 1 + seed % 2 if windows is None else windows
    keys = np.random.default_rng(seed + 20_000).standard_normal((windows, DIM)).astype(np.float32)
    return keys / np.linalg.norm(keys, axis=1, keepdims=True)


def parts_of(seed, position):
    """State, tau and, for the last position, suffix array."""
    rng = np.random.default_rng((seed, position))
    ids = tokens_of(seed)
    suffixes = np.array(sorted(range(len(ids)), key=lambda i: ids[i:].tolist()))
    return {
        "state": rng.integers(0, 256, STATE_BYTES, dtype=np.uint8),
        "tau": rng.random(NUM_TAU, dtype=np.float32),
        "suffix_array": suffixes if position == len(ids) else None,
    }


def semantic_of(group, last_id, seed=0):
    rng = np.random.default_rng(seed + 30_000)
    reals = rng.standard_normal(50).astype(np.float32), rng.random(NUM_TAU, dtype=np.float32)
    return Semantic(*group, 0.1, 3, last_id, 60, *reals)


def add(batch, seed, *, positions=None, **changes):
    """A deposit with states at half of its tokens and at its end, unless told otherwise."""
    deposit_id, is_new = batch.add_deposit(info_of(seed, **changes), keys_of(seed))
    count = len(tokens_of(seed))
    for position in (count // 2, count) if positions is None else positions:
        batch.add_state(deposit_id, position, tokens_of(seed)[:position], **parts_of(seed, position))
    return deposit_id, is_new


def fill(store, seeds, **options):
    """Deposits of these seeds, in one commit unit; returns their ids."""
    with store.batch() as batch:
        return [add(batch, seed, **options)[0] for seed in seeds]


def segment_bytes(path):
    return {p.name: p.read_bytes() for p in sorted(path.glob("*/segments/*.seg"))}


def all_bytes(path):
    """Every file below a folder, by name."""
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def said_by(seed):
    """Byte strings that are in a memory because of this deposit alone."""
    count = len(tokens_of(seed))
    windows = [tokens_of(seed).astype("<u2").tobytes()[:16]] if count >= 8 else []
    states = [parts_of(seed, p)["state"].tobytes()[at : at + 64] for p in (count // 2, count) for at in (0, 300)]
    uid = info_of(seed).uid
    return [text_of(seed).encode(), uid, *windows, *states, *(key.tobytes() for key in keys_of(seed))]
