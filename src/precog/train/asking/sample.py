"""Many rows continued at once, each from its own state, by sampling."""

from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from precog.backbones.tenns.block import Linear
from precog.backbones.tenns.model import TennsModel
from precog.backbones.tenns.step import model_step
from precog.train.data.tokens import EOS_ID

LOOK_EVERY = 8
"""Steps between two looks at which rows have ended: a look waits for the device."""
READ_AT_ONCE = 128
"""Chunks of similar length that are read together; more of them would only be padded to longer ones."""


@torch.no_grad()
def ready(model: TennsModel, dtype: torch.dtype) -> TennsModel:
    """Store in place what would be cast to ``dtype`` on every use: matrices and embeddings. The results stay the same.

    Vectors and what the recurrence is computed from stay FP32. The model can no longer be trained.
    """
    for module in model.modules():
        if isinstance(module, Linear | nn.Embedding):
            module.weight.data = module.weight.data.to(dtype)
    return model.requires_grad_(False).eval()


@torch.no_grad()
def read_states(
    model: TennsModel, context: Int64[Tensor, "B T"], lengths: NDArray[np.int64], dtype: torch.dtype | None = None
) -> Float[Tensor, "L B S"]:
    """The states that B chunks leave, read in groups of similar length."""
    order = np.argsort(lengths, kind="stable")
    states: Tensor | None = None
    for start in range(0, len(order), READ_AT_ONCE):
        group = order[start : start + READ_AT_ONCE]
        at = torch.from_numpy(group).to(context.device)
        ends = torch.from_numpy(lengths[group]).to(context.device)
        read = model(context[at, : int(lengths[group[-1]])], lengths=ends, dtype=dtype).state
        if states is None:
            states = read.new_empty(read.shape[0], len(order), read.shape[2])
        states[:, at] = read
    assert states is not None
    return states


@torch.no_grad()
def sample_segments(
    model: TennsModel,
    states: Float[Tensor, "L R S"],
    prompts: Int64[Tensor, "R U"],
    lengths: Int64[Tensor, " R"],
    max_tokens: int,
    temperature: float,
    generator: torch.Generator,
    dtype: torch.dtype | None = None,
) -> NDArray[np.int64]:
    """Continue R prompts, each from its own state.

    Rows that have ended are dropped now and then, so that the last ones are cheap.

    Args:
        model: the network.
        states: where each row starts.
        prompts: each opened by the boundary token, right-padded.
        lengths: tokens of each prompt.
        max_tokens: most that are sampled.
        temperature: of sampling.
        generator: on the device.
        dtype: compute dtype.

    Returns:
        Ids [R, max_tokens], the end token from its first on.
    """
    read = model(prompts, state=states, lengths=lengths, dtype=dtype)
    hidden = read.hidden.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, read.hidden.shape[-1]))[:, 0]
    state, tail = read.state, read.tail
    out = torch.full((len(prompts), max_tokens), EOS_ID, device=prompts.device)
    live = torch.arange(len(prompts), device=prompts.device)
    done = torch.zeros_like(live, dtype=torch.bool)
    for number in range(max_tokens):
        logits = model.logits(hidden).float() / temperature
        noise = torch.empty_like(logits).exponential_(generator=generator).log_().neg_()  # the Gumbel trick
        token = torch.where(done, EOS_ID, (logits + noise).argmax(-1))
        out[live, number] = token
        done = done | (token == EOS_ID)
        if number == max_tokens - 1:
            break
        if number % LOOK_EVERY == LOOK_EVERY - 1:
            kept = (~done).nonzero()[:, 0]
            if not len(kept):
                break
            if 4 * len(kept) < 3 * len(live):
                live, done, token = live[kept], done[kept], token[kept]
                state, tail, hidden = state[:, kept], tail[:, kept], hidden[kept]
        hidden, state, tail, _ = model_step(model, token, state, tail, hidden.dtype)
    return cast("NDArray[np.int64]", out.cpu().numpy())
