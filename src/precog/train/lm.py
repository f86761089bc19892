"""Language modelling on windows of packed documents: next tokens, from a state that starts anew with every document.

Inside a document the state is carried from segment to segment; ``<s>`` opens a segment and empties the convolution's
window, nothing else. ``<s>`` itself is always given and never predicted.
"""

import dataclasses

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from precog.backbones.tenns.model import BOUNDARY_ID, TennsModel
from precog.train.cross_entropy import IGNORED, hidden_cross_entropy
from precog.train.data.batches import TokenBatch


@dataclasses.dataclass(frozen=True)
class TokenRows:
    """One micro-batch of windows on the device.

    Attributes:
        tokens: [B, T + 1] token ids.
        reset: [B, T + 1] True where a document starts.
    """

    tokens: Int64[Tensor, "B T1"]
    reset: Bool[Tensor, "B T1"]


def place_tokens(arrays: TokenBatch, device: torch.device) -> TokenRows:
    """Put windows on the device."""
    tokens = torch.from_numpy(np.ascontiguousarray(arrays["tokens"], dtype=np.int64))
    reset = torch.from_numpy(np.ascontiguousarray(arrays["reset"]))
    if device.type == "cuda":
        tokens, reset = tokens.pin_memory(), reset.pin_memory()
    return TokenRows(tokens.to(device, non_blocking=True), reset.to(device, non_blocking=True))


def next_tokens(tokens: Int64[Tensor, "B T1"]) -> Int64[Tensor, "B T"]:
    """What each position but the last should predict; a boundary token is nobody's business."""
    targets = tokens[:, 1:]
    return targets.masked_fill(targets == BOUNDARY_ID, IGNORED)


def score_tokens(
    model: TennsModel, rows: TokenRows, dtype: torch.dtype | None = None, compiled: bool = False
) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]:
    """Sum of cross-entropies and number of predicted tokens of B windows of T tokens.

    Args:
        model: the network.
        rows: windows.
        dtype: compute dtype of the blocks.
        compiled: compile the cross-entropy.
    """
    read = model(rows.tokens[:, :-1], resets=rows.reset[:, :-1], dtype=dtype)
    targets = next_tokens(rows.tokens).flatten()
    total = hidden_cross_entropy(model, read.hidden.flatten(0, 1), targets, compiled)
    return total, (targets != IGNORED).sum()
