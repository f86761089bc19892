"""Perplexity on held-out text: the state is carried through a document and starts anew at the next.

A document is cut into segments of equal length, each opened by the boundary token, as chunks are. Every token of the
text is predicted from everything before it in its document; the boundary token itself is never predicted.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.errors import InputError, UsageError
from precog.text.tokenizer import Tokenizer
from precog.train.data.documents import read_documents

SEGMENT_TOKENS = 256


@dataclass(frozen=True)
class Perplexity:
    """How surprising each token was.

    Attributes:
        nll: negative log-likelihood of every token of the text in nats, in order.
    """

    nll: Float[Tensor, " n"]

    @property
    def num_tokens(self) -> int:
        """Tokens that were predicted."""
        return self.nll.numel()

    @property
    def value(self) -> float:
        """The exponential of the mean."""
        return math.exp(self.nll.mean().item())

    def change_from(self, before: "Perplexity") -> tuple[float, float]:
        """Relative change against another model on the same text, and half of its 95 % interval.

        Token by token, so that what is hard for both cancels; neighbouring tokens are taken for independent.
        """
        if self.num_tokens != before.num_tokens:
            raise UsageError("two perplexities of different texts", given=self.num_tokens, expected=before.num_tokens)
        difference = self.nll - before.nll
        change = math.exp(difference.mean().item())
        spread = difference.std().item() / math.sqrt(self.num_tokens) if self.num_tokens > 1 else 0.0
        return change - 1, 1.96 * spread * change


def measure_perplexity(
    backbone: Backbone,
    documents: Iterable[Sequence[int]],
    *,
    segment_tokens: int = SEGMENT_TOKENS,
    carried: bool = True,
    on_tokens: Callable[[int], None] = lambda done: None,
) -> Perplexity:
    """Read documents and collect how surprising their tokens were.

    Args:
        backbone: the model.
        documents: token ids of each document, without boundary.
        segment_tokens: tokens between two boundary tokens.
        carried: read a segment from the state of the one before; otherwise each segment is a text of its own.
        on_tokens: called with the number of tokens done.

    Raises:
        InputError: there is no token.
        UsageError: the segment length is out of range.
    """
    if segment_tokens < 1:
        raise UsageError("the segment length is out of range", given=segment_tokens, expected="at least 1")
    found: list[Tensor] = []
    done = 0
    for ids in documents:
        state = None
        for start in range(0, len(ids), segment_tokens):
            segment = list(ids[start : start + segment_tokens])
            after, logits = backbone.prefill_logits([backbone.tokenizer.boundary_id, *segment], state)
            if carried:
                state = after if backbone.spec.carries_tail else after.at_boundary()
            logits = logits[:-1].double()
            scores = logits.gather(1, torch.tensor(segment)[:, None])[:, 0]
            found.append(logits.logsumexp(1) - scores)
            done += len(segment)
            on_tokens(done)
    if not found:
        raise InputError("there is no text to measure perplexity on", expected="at least one token")
    return Perplexity(torch.cat(found))


def read_token_documents(
    path: Path, tokenizer: Tokenizer, limit_tokens: int | None = None, skip_tokens: int = 0
) -> list[list[int]]:
    """The documents of a text file as token ids, whole or cut where the limit is reached.

    Args:
        path: ``.txt``, ``.md`` or ``.jsonl``, plain or compressed; see ``train.data.documents``.
        tokenizer: the model's.
        limit_tokens: of all documents together.
        skip_tokens: whole documents are passed over until this many tokens have gone by.

    Raises:
        InputError: the file cannot be read, or holds no text.
    """
    documents: list[list[int]] = []
    total = skipped = 0
    for document in read_documents(path):
        lines = (document.title, *document.paragraphs) if document.title else document.paragraphs
        ids = tokenizer.encode("\n".join(lines))
        if skipped < skip_tokens:
            skipped += len(ids)
            continue
        if limit_tokens is not None:
            ids = ids[: limit_tokens - total]
        if ids:
            documents.append(ids)
            total += len(ids)
        if limit_tokens is not None and total >= limit_tokens:
            break
    if not documents:
        raise InputError("the file holds no text", given=path)
    return documents
