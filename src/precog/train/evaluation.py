"""What a model in training has learned, on held-out batches."""

import math
from collections.abc import Callable
from typing import Any

import torch

from precog.backbones.tenns.model import TennsModel
from precog.train.data.batches import Batch, TokenBatch
from precog.train.lm import place_tokens, score_tokens
from precog.train.microbatch import PARTS
from precog.train.objective import LossWeights, score
from precog.train.questions import Variation, place

OnProgress = Callable[[int, int, dict[str, Any]], None]
"""Called with what is done, of how much, and figures about it."""


def count_batches(total: int, on_progress: OnProgress) -> Callable[[], None]:
    """A function to call after every batch, which tells how many of ``total`` are done; none are at first."""
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        on_progress(done, total, {})

    on_progress(0, total, {})
    return one_more


def evaluate_batches(
    model: TennsModel,
    batches: list[Batch],
    device: torch.device,
    dtype: torch.dtype,
    use_state: bool = True,
    variation: Variation = Variation(),  # noqa: B008  # frozen
    on_batch: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Mean cross-entropies and the share of rows that greedy grounded decoding would answer exactly.

    A question that stands in the batches more than once, as in a set smaller than they are, is scored once.

    Runs with gradients enabled and in the shapes of training, so that compiled blocks are reused as they are.
    """
    totals = dict.fromkeys(PARTS, 0.0)
    counts = dict.fromkeys(PARTS, 0.0)
    model.eval()
    seen: set[bytes] = set()
    for arrays in batches:
        batch = place(_new_rows(arrays, seen), device, variation, (0,))
        scores = score(model, batch, LossWeights(), dtype, use_state=use_state)
        for name in PARTS:
            total, count = getattr(scores, name)
            totals[name] += float(total.detach())
            counts[name] += float(count.detach())
        on_batch()
    model.train()
    return {name: round(totals[name] / max(1.0, counts[name]), 4) for name in PARTS}


def _new_rows(arrays: Batch, seen: set[bytes]) -> Batch:
    """The batch with its rows that were seen before marked as no longer valid."""
    valid = arrays["valid"].copy()
    for row, chunk in enumerate(arrays["owner"]):
        key = arrays["context"][chunk].tobytes() + arrays["questions"][row].tobytes()
        valid[row] &= key not in seen
        seen.add(key)
    fresh = arrays.copy()
    fresh["valid"] = valid
    return fresh


def evaluate_tokens(
    model: TennsModel,
    batches: list[TokenBatch],
    device: torch.device,
    dtype: torch.dtype,
    on_batch: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Mean cross-entropy of next tokens on windows of a stream, and what it is as a perplexity."""
    total = count = 0.0
    model.eval()
    for arrays in batches:
        loss, tokens = score_tokens(model, place_tokens(arrays, device), dtype)
        total += float(loss.detach())
        count += float(tokens)
        on_batch()
    model.train()
    mean = total / max(1.0, count)
    return {"lm": round(mean, 4), "perplexity": round(math.exp(min(mean, 50.0)), 3)}
