"""ERRATA 8: what reusing a rotary cache of keys and values at other positions costs, and what can be repaired.

The paper says that such caches cannot be reused. A chunk cached at positions 0 … L − 1 is exact as a prefix. Behind a
prefix of τ tokens its keys stand τ positions too early; turning them on by τ repairs that, exactly, and with nothing in
front of it everything. What cannot be repaired is that the chunk's tokens did not see the prefix: from layer 2 on, keys
and values are others. A recurrent state has no position to repair, but what it has not read it does not know either.
"""

from collections.abc import Sequence

import torch

from precog.backbones.protocol import Backbone
from precog.engine.conform import furthest
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.passage import QUESTION_TOKENS, Passage
from precog.evaluate.theorem.rollout import Memory, StateRollout
from precog.evaluate.theorem.rotary import Cache, RotaryConfig, RotaryTransformer

SHIFTS = (1, 4, 16, 64, 256)
CHUNK_TOKENS = 48
COUNTS = (0, 1, 1_000, 1_000_000)
"""Tokens that a state is told it has read before the chunk, though it remembers none of them."""


def measure_rotary(seed: int, config: RotaryConfig | None = None) -> Record:
    """Reuse a chunk's cache in every way, on a random transformer and random tokens of one seed.

    Returns:
        max |Δlogit| over the question: ``prefix``, at the positions where the chunk was cached; ``lost``, with no
        chunk at all, for scale; and for each of ``shifts`` (τ): ``alone_left`` and ``alone_turned``, nothing in front,
        the question τ positions further, keys as they were or turned on; ``left`` and ``turned``, behind a prefix of
        τ tokens; ``reread``, the chunk read again behind the prefix's cache; ``key_errors`` and ``value_errors`` of
        ``turned`` by layer, relative in the inf-norm.
    """
    config = config or RotaryConfig()
    model = RotaryTransformer(config, seed)
    generator = torch.Generator().manual_seed(seed)
    length = max(SHIFTS) + CHUNK_TOKENS + QUESTION_TOKENS
    ids = torch.randint(config.vocabulary, (length,), generator=generator).tolist()
    before, chunk = ids[: max(SHIFTS)], ids[max(SHIFTS) : -QUESTION_TOKENS]
    question = ids[-QUESTION_TOKENS:]
    _, cached = model.read(chunk)
    whole = model.read([*chunk, *question])[0][len(chunk) :]
    rows = [_shifted(model, before[-shift:], chunk, question, cached, whole) for shift in SHIFTS]
    return {
        "seed": seed,
        "layers": config.layers,
        "prefix": furthest(model.read(question, len(chunk), cached)[0], whole),
        "lost": furthest(model.read(question, len(chunk))[0], whole),
        "shifts": rows,
    }


def _shifted(
    model: RotaryTransformer,
    before: Sequence[int],
    chunk: Sequence[int],
    question: Sequence[int],
    cached: Cache,
    whole: torch.Tensor,
) -> Record:
    shift, base = len(before), model.config.base
    turned, at = cached.moved(shift, base), shift + len(chunk)
    prefix = model.read(before)[1]
    logits, truth = model.read([*before, *chunk, *question])
    expected = logits[at:]

    def asked(cache: Cache) -> torch.Tensor:
        return model.read(question, at, cache)[0]

    seen = Cache(*(part[:, :, shift:at] for part in (truth.keys, truth.values)))
    again = model.read(chunk, shift, prefix)[1]
    return {
        "tokens": shift,
        "alone_left": furthest(asked(cached), whole),
        "alone_turned": furthest(asked(turned), whole),
        "left": furthest(asked(prefix.followed_by(cached)), expected),
        "turned": furthest(asked(prefix.followed_by(turned)), expected),
        "reread": furthest(asked(again), expected),
        "key_errors": _by_layer(turned.keys, seen.keys),
        "value_errors": _by_layer(turned.values, seen.values),
    }


def _by_layer(found: torch.Tensor, expected: torch.Tensor) -> list[float]:
    error = (found - expected).abs().flatten(1).amax(1)
    return (error / expected.abs().flatten(1).amax(1)).tolist()


def measure_placeless(backbone: Backbone, passage: Passage) -> Record:
    """The same questions to a model with a recurrent state.

    Returns:
        ``counted``: max |Δlogit| of chunk and question read from an empty memory that has counted more tokens
        (`COUNTS`); ``unread``: of the question after the chunk's stored state, where a prior text was read before the
        chunk, which the state does not know; ``reread``: the chunk read again from the prior text's state; ``lost``:
        of the question alone, for scale.
    """
    rollout, spec = StateRollout(backbone), backbone.spec
    question = passage.question[:QUESTION_TOKENS]
    _, expected = rollout.roll((*passage.context, *question))
    empty = rollout.backbone.empty_state()
    counted = [
        furthest(rollout.roll((*passage.context, *question), Memory(empty.recurrent, empty.tail, count))[1], expected)
        for count in COUNTS
    ]
    prior = rollout.roll(passage.prior)[0].at_boundary(spec)
    chunk = rollout.roll(passage.context)[0].at_boundary(spec)
    again = rollout.roll(passage.context, prior)[0].at_boundary(spec)
    _, truth = rollout.roll((*passage.prior, *passage.context, *question))
    truth = truth[-len(question) :]
    return {
        "text": passage.name,
        "counted": dict(zip(map(str, COUNTS), counted, strict=True)),
        "unread": furthest(rollout.roll(question, chunk)[1], truth),
        "reread": furthest(rollout.roll(question, again)[1], truth),
        "lost": furthest(rollout.roll(question)[1], truth),
    }
