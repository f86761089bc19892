"""The states along one segment, in one pass: every matrix product is computed once, only the recurrence again.

The residual stream of all tokens comes from the recurrence over the whole segment, as in `TennsModel.forward`, so that
the last state is bit for bit that pass's own. The states in between come from the same recurrence run from cut to cut.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.model import TennsModel


@torch.no_grad()
def states_along(
    model: TennsModel, tokens: Int64[Tensor, " T"], cuts: Sequence[int], dtype: torch.dtype
) -> tuple[Float[Tensor, "L K S"], Float[Tensor, "L K J N"], Float[Tensor, "L K g"]]:
    """Read one segment from nothing and look at the states after some of its tokens.

    Args:
        model: the network.
        tokens: the segment; no boundary token but its first.
        cuts: numbers of tokens, rising, from 1 to T.
        dtype: compute dtype.

    Returns:
        Recurrent states, convolution tails and τ at every cut.
    """
    length, reach = len(tokens), model.config.kernel - 1
    x = model.embedding(tokens[None]).to(dtype)
    states, tails, times = [], [], []
    for block in model.blocks:
        assert isinstance(block, TennsBlock)
        v, z, inputs, e, dt = block.gated(x, None, None, None)
        mixed, final = block.recur(v, e, dt, None, None)
        state, start, mine = None, 0, []
        for cut in cuts:
            if cut == length:
                state = final
            else:
                piece = slice(start, cut)
                _, state = block.recur(v[:, piece], e[:, piece], dt[:, piece], state, None)
            mine.append(state[0])
            start = cut
        states.append(torch.stack(mine))
        padded = torch.nn.functional.pad(inputs[0], (0, 0, reach, 0))
        tails.append(torch.stack([padded[cut : cut + reach] for cut in cuts]))
        times.append(torch.stack([dt[0, :cut].sum(0) for cut in cuts]))
        x = block.joined(x, mixed, v, z)
    return torch.stack(states), torch.stack(tails), torch.stack(times)
