"""What a fact still weighs in the logits after a distance, for any backbone of the protocol (ERRATA 30).

Two readings differ in one made fact at their beginning and go on with the same text; after every distance both are
asked about the fact. How far apart the logits are is what the difference still weighs. This counts every way that
information takes, and needs no gates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from precog.backbones.protocol import Backbone
from precog.engine.conformance import FP32_BOUND
from precog.engine.gate_memory import SHARE_LEFT, Floats, Quantiles
from precog.engine.probes import Probe, make_probes
from precog.errors import InputError, ModelError
from precog.state import StateBatch

DISTANCES = (1, 2, 4, 8, 16, 32, *(d for power in range(6, 16) for d in (1 << power, 3 << (power - 1))))
_PASS_TOKENS = 4096  # tokens of one pass over all rows


@dataclass(frozen=True)
class Influence:
    """What a fact still weighs at a distance.

    Attributes:
        distance: tokens of text between the fact's end and the question.
        share: max |Δlogit| after the question, as a share of that at distance 1; quantiles over the samples.
        recall: share of facts of which the own name is more probable than the other one; 0.5 is chance.
    """

    distance: int
    share: Quantiles
    recall: float


def distances_within(longest_distance: int, text_tokens: int) -> list[int]:
    """The distances that are measured: 1, 2, 4, …, 64, 96, 128, 192, … as far as asked for and as the text goes.

    Raises:
        InputError: the text is empty.
    """
    distances = [d for d in DISTANCES if d <= min(longest_distance, text_tokens)]
    if not distances:
        raise InputError("there is no text to put between fact and question", given="0 tokens")
    return distances


@torch.no_grad()
def influence(
    backbone: Backbone,
    text_ids: Sequence[int],
    *,
    num_samples: int,
    longest_distance: int,
    seed: int,
    on_progress: Callable[[int], None] = lambda num_tokens: None,
) -> tuple[Influence, ...]:
    """What made facts still weigh at growing distances; all samples are read side by side, and the text only once.

    Args:
        backbone: any.
        text_ids: stretches of it stand between fact and question.
        num_samples: made facts, each with a stretch of the text of its own.
        longest_distance: tokens; the text may end it earlier.
        seed: of facts and stretches.
        on_progress: told the tokens of text read so far.

    Raises:
        InputError: the text is empty.
        ModelError: a logit is not finite.
    """
    distances = distances_within(longest_distance, len(text_ids))
    probes = make_probes(backbone, num_samples, seed)
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(text_ids) - distances[-1] + 1, len(probes))
    text = np.asarray(text_ids, dtype=np.int64)
    stretches = np.stack([text[start : start + distances[-1]] for start in starts]).repeat(2, axis=0)
    tokens = torch.from_numpy(stretches)
    batch = backbone.open([backbone.prefill(fact)[0] for probe in probes for fact in probe.facts])
    longest_pass = max(1, _PASS_TOKENS // len(batch))
    done = 0
    rows: list[Influence] = []
    first = np.zeros(0)
    for distance in distances:
        while done < distance:
            stop = min(distance, done + longest_pass)
            batch, _ = backbone.read(batch, tokens[:, done:stop])
            done = stop
            on_progress(len(batch) * done)
        changes, recall = _ask(backbone, batch, probes)
        first = changes if distance == 1 else first
        # a model that keeps nothing differs by the rounding of its rows, which is no influence
        share = np.divide(changes, first, out=np.zeros_like(changes), where=first > FP32_BOUND)
        rows.append(Influence(distance, Quantiles.of(share), recall))
    return tuple(rows)


def _ask(backbone: Backbone, batch: StateBatch, probes: Sequence[Probe]) -> tuple[Floats, float]:
    """Ask every pair of rows its question: max |Δlogit| of each pair, and the share of rows that prefer their name."""
    changes, right = np.zeros(len(probes)), 0
    by_length: dict[int, list[int]] = {}
    for number, probe in enumerate(probes):
        by_length.setdefault(len(probe.question), []).append(number)
    for numbers in by_length.values():
        rows = [row for number in numbers for row in (2 * number, 2 * number + 1)]
        question = torch.tensor([probes[row // 2].question for row in rows])
        _, hidden = backbone.read(batch.select(rows), question)
        logits = backbone.logits(hidden)
        if not torch.isfinite(logits).all():
            raise ModelError(f"the model's logits are not finite: {backbone.card.name}")
        for pair, number in enumerate(numbers):
            one, other = logits[2 * pair], logits[2 * pair + 1]
            mine, yours = probes[number].answers
            changes[number] = float((one - other).abs().max())
            right += int(one[mine] > one[yours]) + int(other[yours] > other[mine])
    return changes, right / (2 * len(probes))


def influence_horizon(rows: Sequence[Influence]) -> float | None:
    """The distance at which the median first falls to 1/e, interpolated in its logarithm; None where it never does."""
    for before, after in pairwise(rows):
        high, low = before.share.q50, after.share.q50
        if low < SHARE_LEFT <= high:
            part = (high - SHARE_LEFT) / (high - low)
            return float(before.distance * (after.distance / before.distance) ** part)
    return None
