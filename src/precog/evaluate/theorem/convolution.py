"""ERRATA 3: the recurrent state is the whole memory only where the convolution stops at the boundary.

The same weights are read with both conventions. ``carried``: the window of the causal convolution crosses the boundary,
so that a state stored without the window's last inputs (the tail) is not what reading on starts from. ``segment``: it
does not, and the state at a boundary is all there is; anywhere else the tail is needed, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import empty_model
from precog.engine.conform import furthest
from precog.errors import BoundaryError
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.growth import largest
from precog.evaluate.theorem.passage import Passage
from precog.evaluate.theorem.rollout import Memory, StateRollout

TOKENS = 12
"""Question tokens of which each error is listed."""
CONTEXT_TOKENS = 16


def measure_convolution(backbone: TennsBackbone, passage: Passage) -> Record:
    """Store states with and without the tail, in both conventions.

    Returns:
        ``carried``: max |Δlogit| at each question token with the last 0, 1, … kernel − 1 inputs kept (``kept``); and
        by the length of the context, without the tail (``cuts``). ``segment``: at the boundary without a tail; and by
        the number of tokens that a segment has been read for when it is cut, without the tail (``cuts``) and with it
        (``cuts_with_tail``); ``refused``: whether the backbone refuses to go on from such a cut.
    """
    reach = backbone.model.config.kernel - 1
    carried, segment = (StateRollout(twin(backbone, how)) for how in ("carried", "segment"))
    question, context, other = passage.question[:TOKENS], passage.context[:CONTEXT_TOKENS], passage.other
    kept = _by_token(carried, context, question, range(reach + 1))
    lengths = [n for n in (1, 2, 3, 4, 8, CONTEXT_TOKENS) if n <= len(context)]
    cuts = [{"tokens": n, "error": largest(_by_token(carried, context[:n], question, [0])[0])} for n in lengths]
    follower = [*question, *passage.context[1:]][:TOKENS]  # a segment that is cut after following another one
    inside = [
        _by_token(segment, [*other[:CONTEXT_TOKENS], *follower[:n]], follower[n:], [0, reach])
        for n in range(min(2 * reach + 1, len(follower)))
    ]
    return {
        "text": passage.name,
        "taps": reach + 1,
        "carried": {"kept": {str(count): errors for count, errors in kept.items()}, "cuts": cuts},
        "segment": {
            "boundary": _by_token(segment, context, question, [0])[0],
            "cuts": [{"tokens": n, "error": largest(errors[0])} for n, errors in enumerate(inside)],
            "cuts_with_tail": [{"tokens": n, "error": largest(errors[reach])} for n, errors in enumerate(inside)],
            "refused": _refuses(segment, passage),
        },
    }


def twin(backbone: TennsBackbone, boundary: Literal["segment", "carried"]) -> TennsBackbone:
    """The same weights, not copied, with another convention at the boundary; another model by its fingerprint."""
    model = empty_model(replace(backbone.model.config, conv_boundary=boundary))
    model.load_state_dict(backbone.model.state_dict(), strict=True, assign=True)
    return TennsBackbone(
        model, backbone.card, backbone.tokenizer, encode_mode=backbone.encode_mode, device=backbone.device
    )


def _by_token(
    rollout: StateRollout, context: Sequence[int], question: Sequence[int], counts: Iterable[int]
) -> dict[int, list[float]]:
    """Max |Δlogit| at each token, read from the state after the context with the last 0, 1, … inputs of its tail."""
    expected = rollout.roll([*context, *question])[1][len(context) :]
    memory, _ = rollout.roll(context)
    assert memory.tail is not None
    found = {}
    for count in counts:
        tail = memory.tail.clone()
        tail[:, : tail.shape[1] - count] = 0.0
        _, logits = rollout.roll(question, Memory(memory.recurrent, tail, memory.num_tokens))
        found[count] = [furthest(one, other) for one, other in zip(logits, expected, strict=True)]
    return found


def _refuses(rollout: StateRollout, passage: Passage) -> bool:
    memory, _ = rollout.roll(passage.context)
    try:
        rollout.roll(passage.context[1:2], memory.at_boundary(rollout.spec))
    except BoundaryError:
        return True
    return False
