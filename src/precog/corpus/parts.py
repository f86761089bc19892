"""The parts of a chunk that are read on their own where a corpus is studied, and the one that a question is about."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from precog.index.nearness import nearness
from precog.store import Chunk as StoredChunk
from precog.store import CorpusStore, Part
from precog.text.chunking.chunk import Chunk
from precog.text.chunking.parts import parts_of
from precog.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class PartOfChunk:
    """A part to be read.

    Attributes:
        span: its characters in the chunk's text.
        text: its text.
        token_ids: of the text, without boundary.
    """

    span: tuple[int, int]
    text: str
    token_ids: tuple[int, ...]


def readable_parts(chunk: Chunk, tokenizer: Tokenizer, max_tokens: int) -> Iterator[PartOfChunk]:
    """The parts of a chunk that fit a record; none where it is a single sentence."""
    for start, stop in parts_of(chunk.text):
        text = chunk.text[start:stop]
        ids = tuple(tokenizer.encode(text))
        if 0 < len(ids) <= max_tokens:
            yield PartOfChunk((start, stop), text, ids)


def nearest_part(
    store: CorpusStore, chunk: StoredChunk, question: str, key: Float32[np.ndarray, " E"] | None
) -> Part | None:
    """The part of a chunk that is nearest to a question, of equals the first; None where it has no parts.

    Args:
        store: the corpus.
        chunk: that was found.
        question: in words.
        key: of the question; None where words alone are compared.

    Raises:
        DamagedCorpusError: a part is not what was written.
    """
    parts = store.parts(chunk.id)
    if not parts:
        return None
    texts = [chunk.info.text[slice(*part.span)] for part in parts]
    scores = nearness(question, key, texts, [part.keys for part in parts])
    return parts[scores.index(max(scores))]
