"""Free decoding: the model says what it likes, token by token, until a sentence ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from precog.backbones.protocol import Backbone
from precog.engine.sampling import Sampling, choose
from precog.errors import UsageError
from precog.state import State
from precog.text.tokenizer import Tokenizer

_ENDS = (b".", b"!", b"?")
_WIDE_ENDS = tuple(mark.encode() for mark in "。！？")
_CLOSERS = b"\"')]}"
_ABBREVIATIONS = {b"mr", b"mrs", b"ms", b"dr", b"st", b"no", b"vs", b"jr", b"sr", b"prof", b"gen", b"col", b"lt"}


@dataclass(frozen=True)
class DecodedToken:
    """One token of an answer.

    Attributes:
        token_id: its id.
        log_probability: under the model at temperature 1, nats.
        tokens_processed: tokens the model has read so far for this answer, the question's included.
    """

    token_id: int
    log_probability: float
    tokens_processed: int


def decode(
    backbone: Backbone,
    state: State | None,
    question_ids: Sequence[int],
    *,
    max_tokens: int = 64,
    sampling: Sampling | None = None,
    whole_sentences: bool = True,
) -> Iterator[DecodedToken]:
    """Stream an answer.

    Args:
        backbone: the model.
        state: what it has read; nothing when None. It is not changed.
        question_ids: the question's segment, boundary first.
        max_tokens: the answer is cut off after so many.
        sampling: greedy when None.
        whole_sentences: stop where the first sentence ends.

    Yields:
        Tokens as soon as they are known, at least one; the token that ends the text is not one of them. A sentence is
        known to have ended only by what follows, so the step after it may be computed and thrown away.

    Raises:
        UsageError: ``max_tokens`` is out of range.
        BoundaryError, ForeignStateError, InputError: as `Backbone.read`.
    """
    if max_tokens < 1:
        raise UsageError("--max-tokens is out of range", given=max_tokens, expected="at least 1")
    sampling = sampling or Sampling()
    generator = None if sampling.is_greedy else sampling.generator()
    batch, hidden = backbone.read(
        backbone.open([backbone.empty_state() if state is None else state]), torch.tensor([list(question_ids)])
    )
    processed = len(question_ids)
    answer: list[int] = []
    while True:
        logits = backbone.logits(hidden[0])
        if not answer:  # an end before any word would be no answer at all
            logits[[backbone.tokenizer.eos_id, backbone.tokenizer.boundary_id]] = -torch.inf
        token_id = choose(logits, sampling, generator)
        if token_id in (backbone.tokenizer.eos_id, backbone.tokenizer.boundary_id):
            return
        if whole_sentences and sentence_ended(answer, token_id, backbone.tokenizer):
            return
        answer.append(token_id)
        yield DecodedToken(token_id, float(torch.log_softmax(logits, 0)[token_id]), processed)
        if len(answer) == max_tokens:
            return
        batch, hidden = backbone.step(batch, [token_id])
        processed += 1


def sentence_ended(answer: Sequence[int], next_id: int, tokenizer: Tokenizer) -> bool:
    """Whether a sentence lies behind ``answer`` when ``next_id`` follows: an end mark and white space, or a new line.

    Initials and common abbreviations (J. R., Mr.) do not end a sentence.
    """
    following = tokenizer.token_bytes(next_id)
    text = b"".join(map(tokenizer.token_bytes, answer))
    if not text.strip():
        return False
    if following[:1] in (b"\n", b"\r"):
        return True
    closed = text.rstrip(_CLOSERS)
    if closed.endswith(_WIDE_ENDS):
        return not following.startswith(_WIDE_ENDS)
    if not closed.endswith(_ENDS) or not following[:1].isspace():
        return False
    if not closed.endswith(b".") or closed != text:
        return True
    words = closed[:-1].split()
    last = words[-1].lstrip(_CLOSERS + b"(") if words else b""
    initial = (len(last) == 1 and last.isalpha() and last.isupper()) or last[-2:-1] == b"."
    return not initial and last.lower() not in _ABBREVIATIONS
