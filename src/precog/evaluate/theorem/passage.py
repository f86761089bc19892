"""What is read: an earlier text, a context and a question, of a real text's tokens or of random ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from precog.backbones.protocol import Backbone
from precog.errors import InputError
from precog.text.tokenizer import Tokenizer

QUESTION_TOKENS = 16
"""Of a question, read by experiments that need no more of it."""


@dataclass(frozen=True)
class Passage:
    """Token ids, each part as it is read: opened by the boundary token, where the model has one.

    Attributes:
        name: ``random`` or ``real``, and a number.
        prior: what is read first, where h₀ ≠ 0.
        context: c.
        question: q.
        other: another context of the same length.
    """

    name: str
    prior: tuple[int, ...]
    context: tuple[int, ...]
    question: tuple[int, ...]
    other: tuple[int, ...]

    @property
    def kind(self) -> str:
        """``random`` or ``real``."""
        return self.name.partition(" ")[0]


def random_passages(backbone: Backbone, count: int, chunk: int, question: int, seed: int) -> list[Passage]:
    """Passages of tokens that were drawn from the vocabulary.

    Args:
        backbone: whose tokens.
        count: passages.
        chunk: tokens of context, other and prior, without what the model puts around them.
        question: tokens of the question, the boundary token counted.
        seed: of the draw.
    """
    length = 3 * chunk + question
    return [
        _cut(backbone, f"random {i + 1}", random_ids(backbone.tokenizer, length, seed + i), chunk, question)
        for i in range(count)
    ]


def real_passages(backbone: Backbone, text: str, count: int, chunk: int, question: int) -> list[Passage]:
    """Passages of a text, spread evenly over it; the question is what the text goes on with.

    Raises:
        InputError: the text is too short.
    """
    ids = backbone.tokenizer.encode(text)
    length = 3 * chunk + question
    if len(ids) < count * length:
        raise InputError(
            "the text is too short for these passages",
            given=f"{len(ids)} tokens",
            expected=f"{count} × {length}",
            hint="give a longer text, fewer passages, or fewer tokens of each",
        )
    starts = [i * (len(ids) // count) for i in range(count)]
    return [
        _cut(backbone, f"real {i + 1}", ids[start : start + length], chunk, question) for i, start in enumerate(starts)
    ]


def random_ids(tokenizer: Tokenizer, count: int, seed: int) -> list[int]:
    """Random ids of a text's tokens: no control token, no part of a character alone."""
    generator = torch.Generator().manual_seed(seed)
    control = {tokenizer.boundary_id, tokenizer.eos_id}
    found: list[int] = []
    while len(found) < count:
        drawn = torch.randint(tokenizer.vocab_size, (4 * count,), generator=generator).tolist()
        found += [token for token in drawn if token not in control and tokenizer.token_bytes(token)]
    return found[:count]


def _cut(backbone: Backbone, name: str, ids: Sequence[int], chunk: int, question: int) -> Passage:
    other, prior, context = (backbone.reading(ids[i * chunk : (i + 1) * chunk]) for i in range(3))
    asked = [*backbone.opening, *ids[3 * chunk :]][:question]
    return Passage(name, tuple(prior), tuple(context), tuple(asked), tuple(other))
