"""Proposition 1: what follows depends on the context through its state only.

Three ways to see it: a state is exchanged for that of the context layer by layer; it leaves the process as bytes; and
it is moved a little, whereupon the logits move a little.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.engine.conform import furthest
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.passage import QUESTION_TOKENS, Passage
from precog.state import CODECS, State

HALVINGS = tuple(range(0, 21, 2))
"""A state is moved by 2^−k of the way to another."""
ReadElsewhere = Callable[[bytes, int, Sequence[int]], Float[Tensor, "T V"]]


def measure_sufficiency(backbone: Backbone, passage: Passage, elsewhere: ReadElsewhere | None = None) -> Record:
    """Measure the three.

    Args:
        backbone: the model, computing at FP32.
        passage: its first `QUESTION_TOKENS` question tokens are read.
        elsewhere: reads tokens from the bytes of an FP32 state in another process; this one when None.

    Returns:
        ``transplant``: max |Δlogit| with the lowest 0, 1, … L layers of another context's state exchanged for this
        one's. ``elsewhere``: max |Δlogit| after the bytes were read, and whether it was in ``another_process``.
        ``interpolation``: max |Δlogit| by ``share`` of the way to the other state.
    """
    spec, question = backbone.spec, passage.question[:QUESTION_TOKENS]
    own, foreign = (
        state if spec.carries_tail else state.at_boundary()
        for state in (backbone.prefill(ids)[0] for ids in (passage.context, passage.other))
    )
    expected = backbone.prefill_logits(question, own)[1]
    transplant = [
        furthest(backbone.prefill_logits(question, _grafted(own, foreign, count))[1], expected)
        for count in range(spec.layers + 1)
    ]
    data = CODECS["fp32"].encode(own, spec)
    if elsewhere is None:
        back = CODECS["fp32"].decode(data, spec, num_tokens=own.num_tokens)
        read = backbone.prefill_logits(question, back)[1]
    else:
        read = elsewhere(data, own.num_tokens, question)
    shares = [2.0**-k for k in HALVINGS] if spec.averages else []
    moved = [
        furthest(backbone.prefill_logits(question, _between(own, foreign, share))[1], expected) for share in shares
    ]
    return {
        "text": passage.name,
        "transplant": transplant,
        "elsewhere": {"max_abs_logit_error": furthest(read, expected), "another_process": elsewhere is not None},
        "interpolation": {"share": shares, "max_abs_logit_error": moved},
    }


def _grafted(own: State, foreign: State, count: int) -> State:
    """The lowest layers of one state, tail included, in another that keeps its own τ and count of tokens."""
    parts = [
        None if mine is None or others is None else torch.cat((mine[:count], others[count:]))
        for mine, others in ((own.recurrent, foreign.recurrent), (own.tail, foreign.tail))
    ]
    assert parts[0] is not None
    return _like(foreign, parts[0], parts[1])


def _between(own: State, foreign: State, share: float) -> State:
    here, there = own.tail, foreign.tail
    tail = None if here is None or there is None else torch.lerp(here, there, share)
    return _like(own, torch.lerp(own.recurrent, foreign.recurrent, share), tail)


def _like(state: State, recurrent: Tensor, tail: Tensor | None) -> State:
    return State(
        recurrent,
        tail=tail,
        num_tokens=state.num_tokens,
        fingerprint=state.fingerprint,
        decay_time=state.decay_time,
    )
