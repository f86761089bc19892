"""What a deposit says apart from its header: a model that may answer with any words of both likes those of the header.

Who spoke and on which day stands first in every deposit, so a short model names the speaker where it is unsure.
"""

import re

from precog.engine import Source
from precog.text.tokenizer import Tokenizer

_HEADER_QUESTION = re.compile(
    r"\b(when|since when|(what|which) (day|date|time|year|month|week)|how long ago|"
    r"who (said|told|mentioned|asked|wrote)|where did \w+ say)\b",
    re.IGNORECASE,
)


def asks_for_header(question: str) -> bool:
    """Whether time, speaker or place of what was said may be what is asked for."""
    return _HEADER_QUESTION.search(question) is not None


def spans_for(question: str, source: Source, header: str, tokenizer: Tokenizer) -> Source:
    """What the answer to a question may be a span of, given what a deposit's state has read.

    Who spoke and when is an answer only to whom that is asked; days that relative times of the text mean stand in the
    header, too, so that a question for a day may be answered with one of them.
    """
    return source if asks_for_header(question) else said_in(source, header, tokenizer)


def said_in(source: Source, header: str, tokenizer: Tokenizer) -> Source:
    """The tokens after the header, or all where they cannot be told apart."""
    head = tokenizer.encode(header.rstrip()) if header.strip() else []
    ids = source.token_ids
    if not head or len(head) >= len(ids) or ids[: len(head)].tolist() != head:
        return source
    return Source.of(ids[len(head) :])
