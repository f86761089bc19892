"""Where words begin and end in a row of token ids, so that an answer neither starts nor stops inside one."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from precog.engine.suffixes import Ids
from precog.text.tokenizer import Tokenizer

_OTHER, _LETTER, _DIGIT, _SEPARATOR = 0, 1, 2, 3


def _kind(character: str) -> int:
    if character.isdigit():
        return _DIGIT
    # only letters with case: scripts written without spaces have no word ends to keep to
    if character.isalpha() and character.lower() != character.upper():
        return _LETTER
    return _SEPARATOR if character in ".," else _OTHER


@lru_cache(maxsize=4)
def _edges(tokenizer: Tokenizer) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The kind of every token's first and last character; part of a character counts as a letter."""
    first = np.zeros(tokenizer.vocab_size, np.uint8)
    last = np.zeros(tokenizer.vocab_size, np.uint8)
    for token in range(tokenizer.vocab_size):
        raw = tokenizer.token_bytes(token)
        if raw:
            try:
                text = raw.decode()
                first[token], last[token] = _kind(text[0]), _kind(text[-1])
            except UnicodeDecodeError:
                first[token] = last[token] = _LETTER
    return first, last


def blank_tokens(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Whether each token shows nothing: white space and control tokens."""
    return _blank(tokenizer)  # type: ignore[arg-type]  # a protocol does not declare that it can be hashed


@lru_cache(maxsize=4)
def _blank(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    return np.array([not tokenizer.token_bytes(token).strip() for token in range(tokenizer.vocab_size)])


def word_edges(tokenizer: Tokenizer, token_ids: Ids) -> NDArray[np.bool_]:
    """Whether a word may begin or end before each token, and after the last one.

    Args:
        tokenizer: that made the ids.
        token_ids: of a chunk, n of them.

    Returns:
        n + 1 Booleans. False inside a word and inside a number such as 5,199 or 3.14.
    """
    first, last = _edges(tokenizer)  # type: ignore[arg-type]  # a protocol does not declare that it can be hashed
    ids = token_ids.astype(np.int64)
    edges = np.ones(len(ids) + 1, np.bool_)
    before, after = last[ids[:-1]], first[ids[1:]]
    inside = np.isin(before, (_LETTER, _DIGIT)) & np.isin(after, (_LETTER, _DIGIT))
    edges[1:-1] = ~inside
    # a full stop or comma between two digits belongs to the number
    single = (first[ids] == _SEPARATOR) & (last[ids] == _SEPARATOR)
    middle = np.flatnonzero(single[1:-1]) + 1
    held = middle[(last[ids[middle - 1]] == _DIGIT) & (first[ids[middle + 1]] == _DIGIT)]
    edges[held] = edges[held + 1] = False
    return edges
