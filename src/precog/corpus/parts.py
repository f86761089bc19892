"""The parts of a chunk that are read on their own where a corpus is studied, and those that a question is about."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from precog.backbones.protocol import Backbone
from precog.index.nearness import nearest, nearness
from precog.refine.focus import eligible
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


def nearest_parts(
    store: CorpusStore,
    chunk: StoredChunk,
    question: str,
    question_ids: Sequence[int],
    key: Float32[np.ndarray, " E"] | None,
    rule: str,
    backbone: Backbone,
) -> list[tuple[Part, float]]:
    """The parts of a chunk that a question may be about, the nearest first, with their nearness; none of a single one.

    Args:
        store: the corpus.
        chunk: that was found.
        question: in words.
        question_ids: its segment, boundary first.
        key: of the question; None where words alone are compared.
        rule: of composition: ``replay`` reads, and has none.
        backbone: the model. Where it would not ask their states, there is no part but the nearest.

    Raises:
        DamagedCorpusError: a part is not what was written.
    """
    parts = [] if rule == "replay" else store.parts(chunk.id)
    if not parts:
        return []
    texts = [chunk.info.text[slice(*part.span)] for part in parts]
    found = nearest(nearness(question, key, texts, [part.keys for part in parts]), texts)
    return [(parts[number], near) for number, near in eligible(backbone, found, question_ids)]
