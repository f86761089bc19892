"""Keys made for tests: words counted, and bunches around given centres."""

import hashlib

import numpy as np
from jaxtyping import Float32
from tiny_corpus import WordEncoder

from precog.memory.domains import DOMAINS, SubCluster
from precog.memory.keyed import Keyed
from precog.memory.prototypes import Prototypes

DIM = 48


class CountingEncoder(WordEncoder):
    """Keys that count words; a text of more than twelve words has several windows."""

    dim = DIM
    fingerprint = hashlib.sha256(b"counting").hexdigest()
    window_tokens = 12
    name = "counting"

    def encode_passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        found = []
        for text in texts:
            words = text.split() or [""]
            windows = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
            found.append(np.stack([self.encode_query(window) for window in windows]))
        return found


def unit(keys: np.ndarray) -> np.ndarray:
    return (keys / np.linalg.norm(keys, axis=-1, keepdims=True)).astype(np.float32)


def random_prototypes(
    seed: int, per_domain: tuple[int, ...] = (3, 1, 4, 0, 10), *, with_members: bool = True
) -> Prototypes:
    generator = np.random.default_rng(seed)
    subclusters = tuple(
        SubCluster(domain, f"group {number}", "A" if number % 2 else "B")
        for domain, count in zip(DOMAINS, per_domain, strict=True)
        for number in range(count)
    )
    return Prototypes(
        DOMAINS,
        unit(generator.normal(size=(len(DOMAINS), DIM))),
        subclusters,
        unit(generator.normal(size=(len(subclusters), DIM))),
        CountingEncoder.fingerprint,
        tuple((number, number + 1) if with_members else () for number in range(len(subclusters))),
    )


def bunches(
    sizes: tuple[int, ...], seed: int = 0, spread: float = 0.05, centre: np.ndarray | None = None
) -> tuple[Keyed, np.ndarray]:
    """Tight bunches of keys around random directions near ``centre``, each with words of its own; and whose each is."""
    generator = np.random.default_rng(seed)
    middle = np.zeros(DIM) if centre is None else centre
    keys, texts, owner = [], [], []
    for number, size in enumerate(sizes):
        direction = unit(generator.normal(size=DIM)) * 0.5 + middle
        for row in range(size):
            keys.append(unit(direction + spread * generator.normal(size=DIM)))
            texts.append(f"word{'abcdefghij'[number]} shared talk number{'xyz'[row % 3]}")
            owner.append(number)
    order = generator.permutation(len(keys))
    keyed = Keyed(
        tuple(range(100, 100 + len(keys))),
        np.stack([keys[row] for row in order]),
        tuple(texts[row] for row in order),
        (None,) * len(keys),
    )
    return keyed, np.array([owner[row] for row in order])
