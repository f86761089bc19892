"""From passages to token rows: the answer is the context's own tokens at the answer's characters.

Works in bytes: a piece's length in UTF-8 is known for every id (a byte piece is one byte), so that token boundaries
follow from a running sum and no character alignment is guessed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import sentencepiece

from precog.questions.passage import Kind, Passage
from precog.text.tokenizer import MISTRAL_FILE, MistralTokenizer
from precog.train.data.rows import CONTEXT_TOKENS, ROW_TOKENS, Columns

__all__ = ["PROMPT", "Dropped", "Pieces", "shared_pieces", "tokenise"]

PROMPT = "###{question} ###Long Answer:"
"""The paper's template (appendix *Generation protocol*)."""
BOUNDARY_ID = MistralTokenizer.boundary_id
EOS_ID = MistralTokenizer.eos_id
MAX_ANSWER_TOKENS = 24
_NOWHERE = -2  # becomes −1 when <s> is counted


class Dropped(NamedTuple):
    """Asks that became no row: too long for one (or the answer for `MAX_ANSWER_TOKENS`), or without an answer that is
    whole tokens of the chunk.
    """

    too_long: int
    unplaced: int


@cache
def shared_pieces() -> "Pieces":
    """One vocabulary for all jobs of a process."""
    return Pieces()


class Pieces:
    """The project's vocabulary, encoding many short texts in one call, with the bytes of each piece.

    Args:
        threads: that encode and decode many texts at once.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._model = sentencepiece.SentencePieceProcessor(model_file=str(MISTRAL_FILE))
        names = [self._model.id_to_piece(i) for i in range(self._model.vocab_size())]
        self.num_bytes = [
            1 if self._model.is_byte(i) else len(name.replace("▁", " ").encode()) for i, name in enumerate(names)
        ]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without ``<s>`` and ``</s>``."""
        if not texts:
            return []
        ids: list[list[int]] = self._model.encode(list(texts), num_threads=self._threads)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids."""
        text: str = self._model.decode([int(i) for i in ids])
        return text

    def decode_all(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The texts of some rows of ids."""
        if not rows:
            return []
        texts: list[str] = self._model.decode([list(row) for row in rows], num_threads=self._threads)
        return texts


def answer_span(text: str, ends: Sequence[int], start: int, stop: int) -> tuple[int, int] | None:
    """The tokens that cover characters ``start:stop`` of ``text``, or None where they say more than the answer.

    Args:
        text: the passage.
        ends: per token, the bytes up to and including it, the tokenizer's leading space counted.
        start: first character of the answer.
        stop: character after the answer.

    Returns:
        First token and the one after the last; None if truncated away or if a token joins the answer to a letter
        or digit outside it.
    """
    if text.isascii():
        first_byte, last_byte = start + 1, stop + 1
    else:
        first_byte = len(text[:start].encode()) + 1
        last_byte = first_byte + len(text[start:stop].encode())
    if not ends or last_byte > ends[-1]:
        return None
    first = bisect_right(ends, first_byte)
    last = bisect_left(ends, last_byte) + 1
    padded = b" " + text.encode()
    before = padded[(ends[first - 1] if first else 0) : first_byte].decode("utf-8", "ignore")
    after = padded[last_byte : ends[last - 1]].decode("utf-8", "ignore")
    if any(c.isalnum() for c in before) or any(c.isalnum() for c in after):
        return None
    return first, last


def tokenise(
    passages: Sequence[Passage],
    pieces: Pieces,
    context_tokens: int = CONTEXT_TOKENS,
    row_tokens: int = ROW_TOKENS,
) -> tuple[Columns, list[str], Dropped]:
    """The columns of some passages; passages left without any question are dropped.

    Args:
        passages: texts and what is asked of them.
        pieces: the vocabulary.
        context_tokens: width of a chunk's row; what goes beyond it is cut off.
        row_tokens: width of a question's row; longer ones are dropped.

    Returns:
        The columns, the question text of each row, and the numbers of asks dropped.
    """
    contexts: list[list[int]] = []
    spans: list[tuple[int, int, int, int]] = []  # chunk, first token, token after, kind
    texts: list[str] = []
    too_long = unplaced = 0
    plain = [p.text.replace("▁", "_") for p in passages]  # sentencepiece's own mark for a space would shift bytes
    encoded = pieces.encode(plain)
    size = pieces.num_bytes
    for passage, text, ids in zip(passages, plain, encoded, strict=True):
        ids = ids[: context_tokens - 1]
        ends = list(accumulate(size[i] for i in ids))
        before = len(spans)
        for ask in passage.asks:
            if ask.kind is Kind.UNANSWERABLE:
                spans.append((len(contexts), _NOWHERE, _NOWHERE, int(ask.kind)))
                texts.append(ask.question.replace("▁", "_"))
                continue
            span = answer_span(text, ends, ask.start, ask.stop)
            if span is None:
                unplaced += 1
                continue
            if span[1] - span[0] > MAX_ANSWER_TOKENS:
                too_long += 1
                continue
            spans.append((len(contexts), span[0], span[1], int(ask.kind)))
            texts.append(ask.question.replace("▁", "_"))
        if len(spans) > before:
            contexts.append([BOUNDARY_ID, *ids])
    prompts = pieces.encode([PROMPT.format(question=q) for q in texts])
    rows: list[list[int]] = []
    kept: list[int] = []
    for index, (prompt, (chunk, first, last, _)) in enumerate(zip(prompts, spans, strict=True)):
        if len(prompt) + last - first + 2 > row_tokens:
            too_long += 1
            continue
        rows.append([BOUNDARY_ID, *prompt, *contexts[chunk][first + 1 : last + 1], EOS_ID])
        kept.append(index)
    columns = _columns(contexts, rows, [spans[i] for i in kept], context_tokens, row_tokens)
    return columns, [texts[i] for i in kept], Dropped(too_long, unplaced)


def _columns(
    contexts: list[list[int]],
    rows: list[list[int]],
    spans: list[tuple[int, int, int, int]],
    context_tokens: int,
    row_tokens: int,
) -> Columns:
    table = np.array(spans, dtype=np.int64).reshape(-1, 4)
    answer_len = table[:, 2] - table[:, 1]
    row_len = np.array([len(r) for r in rows], dtype=np.int64)
    counts = np.bincount(table[:, 0], minlength=len(contexts)) if len(table) else np.zeros(len(contexts), np.int64)
    has_rows = counts > 0
    renumber = np.cumsum(has_rows) - 1
    contexts = [c for c, keep in zip(contexts, has_rows, strict=True) if keep]
    return {
        "context": _padded(contexts, context_tokens),
        "context_len": np.array([len(c) for c in contexts], dtype=np.int16),
        "first_question": np.concatenate([[0], np.cumsum(counts[has_rows])]).astype(np.int64),
        "questions": _padded(rows, row_tokens),
        "prompt_len": (row_len - answer_len - 1).astype(np.int16),
        "row_len": row_len.astype(np.int16),
        "answer_start": (table[:, 1] + 1).astype(np.int16),
        "answer_len": answer_len.astype(np.int16),
        "chunk": renumber[table[:, 0]].astype(np.int32) if len(table) else np.zeros(0, np.int32),
        "kind": table[:, 3].astype(np.uint8),
    }


def _padded(rows: list[list[int]], width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    out = np.zeros((len(rows), width), dtype=np.uint16)
    lengths = np.array([len(r) for r in rows], dtype=np.int64)
    mask = np.arange(width) < lengths[:, None]
    out[mask] = np.fromiter((t for r in rows for t in r), dtype=np.uint16, count=int(lengths.sum()))
    return out
