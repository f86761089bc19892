"""The decay that every token of a text causes in every layer of a TENNs-LLM (paper, appendix B; ERRATA 1)."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.tenns.block import TennsBlock
from precog.backbones.tenns.model import TennsModel
from precog.state import Decay


@torch.no_grad()
def read_gates(
    model: TennsModel, tokens: Int64[Tensor, " T"], dtype: torch.dtype
) -> tuple[Float[Tensor, "L T g"], Float[Tensor, "L C"]]:
    """Δ of every token and Re λ of every coordinate: |decay| = exp(Δ·Re λ).

    Args:
        model: the network.
        tokens: one segment, read from nothing.
        dtype: compute dtype of the blocks; Δ and λ are FP32 or FP64 whatever it is.

    Returns:
        Δ [L, T, g] and Re λ [L, C] in main memory. C is the number of heads of the outer mixer and of complex modes of
        the diagonal one; it is a multiple of g, and neighbouring coordinates share a Δ.
    """
    x = model.embedding(tokens[None]).to(dtype)
    steps, rates = [], []
    for block in model.blocks:
        assert isinstance(block, TennsBlock)
        x, _, _, dt = block(x, None, None, None, None, None)
        steps.append(dt[0].cpu())
        rates.append(block.decay_rates()[0].cpu())
    return torch.stack(steps), torch.stack(rates)


def read_decay(model: TennsModel, fingerprint: str) -> Decay:
    """The decay rates λ of every layer, in main memory.

    A coordinate is a complex mode of the diagonal mixer, stored as Re(0 … M−1), Im(0 … M−1), or a head of the outer
    one, whose K × P reals stand together and all fade alike.
    """
    rates, frequencies = [], []
    for block in model.blocks:
        assert isinstance(block, TennsBlock)
        real, turning = block.decay_rates()
        rates.append(real.detach().cpu())
        frequencies.append(turning.detach().cpu())
    complex_valued = model.config.mixer == "diagonal"
    return Decay(torch.stack(rates), torch.stack(frequencies) if complex_valued else None, fingerprint)
