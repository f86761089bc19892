"""The token ids a model reads when it reads a chunk: boundary, template and encode mode applied.

In-context answers read the very same ids, so that both modes differ in nothing but where the state comes from.
"""

from collections.abc import Sequence

from precog.errors import InputError
from precog.text.tokenizer import Tokenizer

_ENDS = (b".", b"!", b"?", "。".encode(), "！".encode(), "？".encode())
_CLOSERS = b"\"')]}"


def split_sentences(ids: Sequence[int], tokenizer: Tokenizer) -> list[list[int]]:
    """Cut a chunk's tokens after each sentence: an end mark, closing quotes, and white space or a line's end next.

    The cut needs the tokens alone, so that a stored chunk can be read again in the same order.
    """
    sentences: list[list[int]] = [[]]
    for position, token_id in enumerate(ids):
        sentences[-1].append(token_id)
        text = tokenizer.token_bytes(token_id).rstrip(_CLOSERS)
        follows = tokenizer.token_bytes(ids[position + 1]) if position + 1 < len(ids) else b""
        if text.endswith(_ENDS) and (follows[:1].isspace() or text.endswith(_ENDS[3:])):
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def reading_ids(
    chunk_ids: Sequence[int],
    tokenizer: Tokenizer,
    *,
    encode_mode: str = "once",
    chunk_template: str = "{chunk}",
    opening: Sequence[int] | None = None,
) -> list[int]:
    """What is read for a chunk.

    ``once`` is ``<s> chunk``; ``twice`` is ``<s> chunk <s> chunk``; ``twice-reversed`` reads the chunk's sentences in
    reverse order first. Template and chunk are tokenised apart (ERRATA 19). ``opening`` stands for ``<s>``: what opens
    every segment of the model, the tokenizer's boundary when None.

    Raises:
        InputError: the chunk is empty or holds a control token.
    """
    boundary = tokenizer.boundary_id
    opens = [boundary] if opening is None else list(opening)
    if not chunk_ids or boundary in chunk_ids or tokenizer.eos_id in chunk_ids:
        raise InputError("a chunk needs tokens of text, and only those", given=f"{len(chunk_ids)} tokens")
    before, after = (tokenizer.encode(part) if part else [] for part in chunk_template.split("{chunk}"))
    once = [*opens, *before, *chunk_ids, *after]
    if encode_mode == "once":
        return once
    if encode_mode == "twice":
        return once * 2
    turned = [token_id for sentence in reversed(split_sentences(chunk_ids, tokenizer)) for token_id in sentence]
    return [*opens, *before, *turned, *after, *once]
