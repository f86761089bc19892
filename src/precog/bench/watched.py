"""A sentence encoder that is watched: what its questions cost, and no passage keyed twice."""

import time

import numpy as np
from jaxtyping import Float32

from precog.encoders import Encoder


class WatchedEncoder:
    """An encoder, with the seconds that it has taken for questions; it keeps the keys of passages.

    Attributes:
        query_sec: seconds for questions; whoever measures sets it back.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._kept: dict[str, Float32[np.ndarray, "_ E"]] = {}
        self.query_sec = 0.0

    @property
    def dim(self) -> int:
        """As the encoder's own."""
        return self._encoder.dim

    @property
    def fingerprint(self) -> str:
        """As the encoder's own."""
        return self._encoder.fingerprint

    @property
    def window_tokens(self) -> int:
        """As the encoder's own."""
        return self._encoder.window_tokens

    @property
    def name(self) -> str:
        """As the encoder's own."""
        return self._encoder.name

    def encode_query(self, text: str) -> Float32[np.ndarray, " E"]:
        """The key of a question."""
        started = time.perf_counter()
        key = self._encoder.encode_query(text)
        self.query_sec += time.perf_counter() - started
        return key

    def encode_passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        """The keys of each passage."""
        new = list(dict.fromkeys(text for text in texts if text not in self._kept))
        self._kept.update(zip(new, self._encoder.encode_passages(new) if new else [], strict=True))
        return [self._kept[text] for text in texts]
