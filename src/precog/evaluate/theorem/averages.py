"""ERRATA 10 and 21: an average of states is no state that a text leaves, and the unrolling holds layer by layer only.

Two texts are read alone and in both orders. The mean of their states, and Eq. 9's unrolling from what was kept of each
text alone, are compared with what reading leaves; last, the unrolling with every layer given the inputs it really saw.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from precog.backbones.gates import decay_of
from precog.backbones.protocol import Backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.block import TennsBlock
from precog.engine.conform import furthest
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.passage import QUESTION_TOKENS, Passage
from precog.evaluate.theorem.rollout import layer_errors
from precog.state import State, blend, compose


def measure_averages(backbone: Backbone, passage: Passage) -> Record:
    """Compare the mean and the unrolling of two texts with reading them.

    Args:
        backbone: whose states may be averaged.
        passage: its other context is read first or last.

    Returns:
        ``mean``: per candidate (``a``, ``b``, ``ab``, ``ba``: texts that were read, in that order), the relative
        distance of the mean of the states of ``a`` and ``b`` from the state it leaves by layer (2-norm), and the
        largest |Δlogit| of a question after it; ``norm``, ‖mean‖ over the mean norm of both, by layer. ``unrolled``:
        distance of ``concat`` from ``ab`` by layer (inf-norm); ``given_inputs``: the same with each layer's own
        inputs. Both None where the model does not say how its states fade.
    """
    spec = backbone.spec
    question = passage.question[:QUESTION_TOKENS]
    first, second = passage.other, passage.context

    def read(*texts: Sequence[int]) -> State:
        state = backbone.prefill([token for text in texts for token in text])[0]
        return state if spec.carries_tail else state.at_boundary()

    read_states = {"a": read(first), "b": read(second), "ab": read(first, second), "ba": read(second, first)}
    a, b, ab = (read_states[name] for name in ("a", "b", "ab"))
    stacked = torch.stack((a.recurrent, b.recurrent), dim=1)
    middle = State(
        blend(stacked, (0.5, 0.5), spec),
        tail=None if a.tail is None or b.tail is None else (a.tail + b.tail) / 2,
        num_tokens=ab.num_tokens,
        fingerprint=spec.fingerprint,
        decay_time=(a.decay_time + b.decay_time) / 2,
    )
    logits = backbone.prefill_logits(question, middle)[1]
    decay, unrolled, given = decay_of(backbone), None, None
    if decay is not None and not spec.carries_tail:
        made = compose([a, b], [0.0, 1.0], spec, rule="concat", decay=decay)
        unrolled = layer_errors(made.state.recurrent, ab.recurrent)
        if isinstance(backbone, TennsBackbone):
            given = layer_errors(unrolled_given_inputs(backbone, a, second), ab.recurrent)
    return {
        "text": passage.name,
        "mean": {
            name: {
                "layers": layer_errors(middle.recurrent, state.recurrent, 2.0),
                "max_abs_logit_error": furthest(logits, backbone.prefill_logits(question, state)[1]),
            }
            for name, state in read_states.items()
        },
        "norm": (middle.recurrent.norm(dim=1) / stacked.norm(dim=2).mean(1)).tolist(),
        "unrolled": unrolled,
        "given_inputs": given,
    }


@torch.no_grad()
def unrolled_given_inputs(backbone: TennsBackbone, before: State, token_ids: Sequence[int]) -> Tensor:
    """P ⊙ H + h of every layer [L, S], P and h from the inputs that the layer sees after ``before`` (paper Eq. 9).

    h is the layer's recurrence from zero over those inputs, P = exp(λ Σ Δ_t); above the first layer both depend on
    what was read before, by way of the inputs alone.
    """
    decay = backbone.decay()
    recurrent = before.recurrent.to(backbone.device)
    x = backbone.model.embedding(torch.tensor([list(token_ids)], device=backbone.device)).to(backbone.dtype)
    written, times = [], []
    for block, state in zip(backbone.model.blocks, recurrent, strict=True):
        assert isinstance(block, TennsBlock)
        v, z, _, e, dt = block.gated(x, None, None, None)
        mixed, _ = block.recur(v, e, dt, state[None], None)
        _, alone = block.recur(v, e, dt, None, None)
        x = block.joined(x, mixed, v, z)
        written.append(alone[0].cpu())
        times.append(dt.sum(1)[0].cpu())
    text = State(
        torch.stack(written),
        tail=None,
        num_tokens=len(token_ids),
        fingerprint=before.fingerprint,
        decay_time=torch.stack(times),
    )
    left = decay.factors(text)[..., None] * decay.coordinates(before)
    return decay.reals(left + decay.coordinates(text))
