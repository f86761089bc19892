"""What an encoder is: a text in, one unit-norm key per window out."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32


@runtime_checkable
class Encoder(Protocol):
    """Turns questions and passages into keys that are compared by their inner product.

    Attributes:
        dim: E, the width of a key.
        fingerprint: sha256, in hexadecimal, over everything that decides what a key is: model and tokenizer bytes,
            window and pooling.
        window_tokens: word pieces that one key covers, special pieces included.
        name: for people.
    """

    @property
    def dim(self) -> int: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    @property
    def window_tokens(self) -> int: ...  # noqa: D102

    @property
    def name(self) -> str: ...  # noqa: D102

    def encode_query(self, text: str) -> Float32[np.ndarray, " E"]:
        """The key of a question, float32 [E], unit norm; a question longer than a window gives the mean of its keys."""
        ...

    def encode_passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        """The keys of each passage, float32 [windows, E], unit norm: nothing is cut off, a long text has several."""
        ...
