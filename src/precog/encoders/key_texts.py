"""What a passage is found by: its text, its title, and the questions that rules make from it."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from jaxtyping import Float32

from precog.encoders.encoder import Encoder
from precog.errors import UsageError
from precog.questions.asking import questions_of

__all__ = ["KEY_KINDS", "MAX_QUESTIONS", "check_keys", "encode_each", "key_texts"]

KEY_KINDS = ("text", "title", "questions")
MAX_QUESTIONS = 16


def check_keys(kind: object) -> None:
    """Refuses what is none of `KEY_KINDS`; None asks for nothing.

    Raises:
        UsageError: it is none.
    """
    if kind is not None and kind not in KEY_KINDS:
        raise UsageError("--keys: no such choice", given=kind, expected=", ".join(KEY_KINDS))


def key_texts(kind: str, text: str, *, title: str, context: str = "") -> tuple[str, ...]:
    """The texts that a passage has keys of; the same for the same passage whenever it is indexed.

    Args:
        kind: ``text`` for the passage in its context; ``title`` for the same, after its title where it has no context;
            ``questions`` for that and for up to `MAX_QUESTIONS` questions made from the text, each after the heading.
        text: the passage.
        title: of what it stands in, such as an article; "" where there is none.
        context: what is read before it; its first line is the path of headings.
    """
    if kind == "text":
        return (context + text,)
    heading = context.partition("\n")[0] or title
    own = context + text if context or not title else f"{title}\n{text}"
    asked = questions_of(text, heading, MAX_QUESTIONS) if kind == "questions" else ()
    return (own, *(f"{heading}: {question}" if heading else question for question in asked))


def encode_each(encoder: Encoder, passages: Sequence[Sequence[str]]) -> list[Float32[np.ndarray, "_ E"]]:
    """The keys of passages, float32 [keys, E] each: those of all of a passage's texts, in their order."""
    rows = iter(encoder.encode_passages([text for texts in passages for text in texts]))
    return [np.concatenate([*islice(rows, len(texts))]) for texts in passages]
