"""Free decoding: the model says what it likes, token by token, until a sentence ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from precog.backbones.protocol import Backbone
from precog.engine.sampling import Sampling, choose
from precog.errors import UsageError
from precog.interrupt import check_asked
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


@runtime_checkable
class StreamingBackbone(Protocol):
    """A backbone that decodes by itself, such as one that many share: same tokens, another way."""

    def decode_stream(
        self,
        state: State | None,
        question_ids: Sequence[int],
        max_tokens: int,
        sampling: Sampling,
        whole_sentences: bool,
    ) -> Iterator[DecodedToken]:
        """As `decode`; it stops when the iterator is closed."""
        ...


class Ending:
    """Where an answer ends, judged token by token: what free decoding is, however its scores come about.

    Args:
        tokenizer: of the model.
        max_tokens: the answer is cut off after so many.
        whole_sentences: stop where the first sentence ends.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, whole_sentences: bool) -> None:
        self._tokenizer, self._max_tokens, self._whole_sentences = tokenizer, max_tokens, whole_sentences
        self._ends = (tokenizer.eos_id, tokenizer.boundary_id)
        self._text = b""
        self.num_tokens = 0

    @property
    def barred(self) -> tuple[int, ...]:
        """Ids that may not come next: an end before any word would be no answer at all."""
        return () if self.num_tokens else self._ends

    @property
    def is_full(self) -> bool:
        """Whether the answer is as long as it may be."""
        return self.num_tokens == self._max_tokens

    def takes(self, token_id: int) -> bool:
        """Whether a token that was chosen goes on with the answer; otherwise the answer ends before it."""
        if token_id in self._ends:
            return False
        if self._whole_sentences:
            following = self._tokenizer.token_bytes(token_id)
            if _sentence_ended(self._text, following):
                return False
            self._text += following
        self.num_tokens += 1
        return True


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
        CancelledError: whoever asked has gone.
    """
    if max_tokens < 1:
        raise UsageError("--max-tokens is out of range", given=max_tokens, expected="at least 1")
    sampling = sampling or Sampling()
    if isinstance(backbone, StreamingBackbone):
        yield from backbone.decode_stream(state, question_ids, max_tokens, sampling, whole_sentences)
        return
    generator = None if sampling.is_greedy else sampling.generator()
    ending = Ending(backbone.tokenizer, max_tokens, whole_sentences)
    batch, hidden = backbone.read(
        backbone.open([backbone.empty_state() if state is None else state]), torch.tensor([list(question_ids)])
    )
    processed = len(question_ids)
    while True:
        check_asked()
        logits = backbone.logits(hidden[0])
        logits[list(ending.barred)] = -torch.inf
        token_id = choose(logits, sampling, generator)
        if not ending.takes(token_id):
            return
        yield DecodedToken(token_id, float(torch.log_softmax(logits, 0)[token_id]), processed)
        if ending.is_full:
            return
        batch, hidden = backbone.step(batch, [token_id])
        processed += 1


def sentence_ended(answer: Sequence[int], next_id: int, tokenizer: Tokenizer) -> bool:
    """Whether a sentence lies behind ``answer`` when ``next_id`` follows: an end mark and white space, or a new line.

    Initials and common abbreviations (J. R., Mr.) do not end a sentence.
    """
    return _sentence_ended(b"".join(map(tokenizer.token_bytes, answer)), tokenizer.token_bytes(next_id))


def _sentence_ended(text: bytes, following: bytes) -> bool:
    if not text or text.isspace():
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
