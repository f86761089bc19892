"""Theorem 1: S(h₀, c ⊕ q) against S(S(h₀, c), q), with the state at the boundary stored in several precisions.

The left side is one pass over context and question; the right side reads the context, keeps the state, and reads the
question from what was kept, from mark to mark. Both are exact in exact arithmetic; what is measured is rounding.
"""

from collections.abc import Sequence

import torch

from precog.backbones.protocol import Backbone
from precog.engine.conform import furthest
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.passage import Passage
from precog.evaluate.theorem.rollout import (
    STORAGES,
    Memory,
    Rollout,
    StateRollout,
    layer_errors,
    stored,
    wide_rollout,
)

MARKS = (1, 2, 4, 8, 16, 32, 40, 64, 128)
"""Numbers of question tokens after which states are compared."""
ELEMENT_BOUNDS = {"fp32": (0.0, 0.0), "bf16": (2.0**-8, 2.0**-134), "fp16": (2.0**-11, 2.0**-25)}
"""|ĥ − h| ≤ a·|h| + b per element at the boundary: half a unit in the last place, of normal and subnormal numbers."""


def measure_exactness(backbone: Backbone, passage: Passage, *, from_nothing: bool, marks: Sequence[int]) -> Record:
    """Compare both sides for every storage.

    Args:
        backbone: the model, computing at FP32.
        passage: what is read.
        from_nothing: h₀ = 0; else h₀ is the state after the passage's prior text.
        marks: numbers of question tokens, rising; the last one is the question's length.

    Returns:
        Per storage: ``max_abs_logit_error`` over all tokens of the question and ``positions``, ``agreeing`` of them
        with the same most probable token; ``element_error``, the largest |ĥ − h| at the boundary in units of its bound
        (`ELEMENT_BOUNDS`); ``inf_norm`` and ``two_norm``, relative errors of states by mark and layer. ``fp64`` is
        left out where the backbone cannot compute in it.
    """
    rollouts: list[tuple[Rollout, Sequence[str]]] = [(StateRollout(backbone), STORAGES[1:])]
    wide = wide_rollout(backbone)
    if wide is not None:
        rollouts.insert(0, (wide, STORAGES[:1]))
    rows: dict[str, object] = {}
    for rollout, storages in rollouts:
        start = None if from_nothing else rollout.roll(passage.prior)[0].at_boundary(backbone.spec)
        after, expected = _judge(rollout, passage, start, marks)
        kept = rollout.roll(passage.context, start)[0].at_boundary(backbone.spec)
        for storage in storages:
            back = stored(kept, storage, backbone.spec)
            memories, found = _read_on(rollout, passage.question, back, marks)
            pairs = [(one.recurrent, other.recurrent) for one, other in zip(memories, after, strict=True)]
            rows[storage] = {
                "max_abs_logit_error": furthest(found, expected),
                "positions": len(found),
                "agreeing": int((found.argmax(1) == expected.argmax(1)).sum()),
                "element_error": _element_error(back, kept, storage),
                "inf_norm": [layer_errors(*pair) for pair in pairs],
                "two_norm": [layer_errors(*pair, 2.0) for pair in pairs],
            }
    return {
        "text": passage.name,
        "kind": passage.kind,
        "from_nothing": from_nothing,
        "context_tokens": len(passage.context),
        "marks": list(marks),
        "stored": rows,
    }


def marks_of(question_tokens: int) -> tuple[int, ...]:
    """`MARKS` within a question, and its end."""
    return tuple(sorted({*(mark for mark in MARKS if mark < question_tokens), question_tokens}))


def _judge(
    rollout: Rollout, passage: Passage, start: Memory | None, marks: Sequence[int]
) -> tuple[list[Memory], torch.Tensor]:
    """One pass from h₀ to each mark: the states there, and the logits after the question's tokens."""
    states = []
    for mark in marks:
        memory, logits = rollout.roll((*passage.context, *passage.question[:mark]), start)
        states.append(memory)
    return states, logits[len(passage.context) :]


def _read_on(
    rollout: Rollout, question: Sequence[int], memory: Memory, marks: Sequence[int]
) -> tuple[list[Memory], torch.Tensor]:
    """The question from mark to mark: the states there, and the logits after every token."""
    memories, parts, done = [], [], 0
    for mark in marks:
        memory, logits = rollout.roll(question[done:mark], memory)
        memories.append(memory)
        parts.append(logits)
        done = mark
    return memories, torch.cat(parts)


def _element_error(back: Memory, kept: Memory, storage: str) -> float:
    if storage == "fp64":
        return 0.0 if torch.equal(back.recurrent, kept.recurrent) else float("inf")
    relative, absolute = ELEMENT_BOUNDS[storage]
    size = kept.recurrent.double()
    error = (back.recurrent.double() - size).abs()
    allowed = relative * size.abs() + absolute
    units = torch.where(error > 0, error / allowed, torch.zeros_like(error))  # 0 / 0 where nothing is allowed
    worst = float(units.max())
    return worst if worst == worst else float("inf")
