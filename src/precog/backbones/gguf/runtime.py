"""A recurrent model that llama.cpp runs, as a function of states.

Every call restores the states it is given, reads, takes the new states out and clears: nothing is kept between calls.
Positions mean nothing to these models; llama.cpp only wants them to continue from the stored one.
"""

from collections.abc import Sequence
from threading import Lock

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from precog.backbones.gguf.blob import BlobLayout
from precog.backbones.gguf.model import LlamaContext, LlamaModel
from precog.backbones.hosted.runtime import RowShape

MAX_SEQUENCES = 8
MEMORY_BYTES = 1 << 28  # of all sequences, allocated once; large states are read fewer at a time, two at least
BATCH_TOKENS = 512
_BEFORE = 0  # the position a restored state stands at


class GgufRuntime:
    """Passes of llama.cpp over rows: R, the last inputs of convolution or token shift, then S.

    Args:
        model: what computes. Its rows are FP32 whatever its weights are; ``dtype`` is FP16 where some weight is not
            FP32, for then llama.cpp rounds what it multiplies with to at most that.

    Raises:
        ModelError: llama.cpp cannot run it, or lays out its states in an unknown way.
    """

    def __init__(self, model: LlamaModel) -> None:
        self._model, self._lock = model, Lock()
        self.vocab_size = int(model.library.functions.llama_vocab_n_tokens(model.vocab))
        self.device = torch.device("cpu")
        self.dtype = torch.float32 if model.is_fp32 else torch.float16
        threads = torch.get_num_threads()
        first = LlamaContext(model, sequences=1, batch=1, threads=threads)
        first.decode(np.zeros((1, 1), dtype=np.int64), 0, every=False)
        self._layout = BlobLayout.of(first.state(0), model.layers)
        self._sequences = max(2, min(MAX_SEQUENCES, MEMORY_BYTES // (4 * self._layout.template.size)))
        self._context = LlamaContext(model, sequences=self._sequences, batch=BATCH_TOKENS, threads=threads)
        self.shape = RowShape(
            layers=model.layers, reals=self._layout.reals, window=(0, self._layout.window), exact=model.is_fp32
        )

    def empty(self) -> Float[Tensor, "L S"]:
        """Zeros: what llama.cpp itself starts from."""
        return torch.zeros(self.shape.layers, self.shape.reals)

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        rows: Float[Tensor, "L B S"],
        num_tokens: Sequence[int],
        *,
        every: bool,
    ) -> tuple[Float[Tensor, "B n V"], Float[Tensor, "L B S"]]:
        """Read tokens from rows, up to `MAX_SEQUENCES` rows and `BATCH_TOKENS` tokens in a pass.

        Raises:
            StateError: rows of another shape.
            ModelError: llama.cpp refuses.
        """
        ids = tokens.cpu().numpy()
        starts = rows.detach().float().cpu().transpose(0, 1).numpy()
        # checked and laid out before llama.cpp sees any: a state it refuses would take others with it
        blobs = [self._layout.blob(start, _BEFORE) for start in starts]
        scores, made = [], []
        with self._lock:
            for first in range(0, len(blobs), self._sequences):
                group = slice(first, first + self._sequences)
                group_scores, group_rows = self._read(ids[group], blobs[group], every=every)
                scores.append(group_scores)
                made += group_rows
        after = torch.from_numpy(np.stack(made, axis=1))
        return torch.from_numpy(np.concatenate(scores)), after

    def _read(
        self, ids: NDArray[np.int64], blobs: Sequence[NDArray[np.uint8]], *, every: bool
    ) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
        context, size = self._context, BATCH_TOKENS // len(blobs)
        parts: list[NDArray[np.float32]] = []
        try:
            for sequence, blob in enumerate(blobs):
                context.restore(sequence, blob)
            for start in range(0, ids.shape[1], size):
                found = context.decode(ids[:, start : start + size], _BEFORE + 1 + start, every=every)
                parts = [*parts, found] if every else [found]
            rows = [self._layout.rows(context.state(sequence)) for sequence in range(len(blobs))]
        finally:
            context.clear()
        return np.concatenate(parts, axis=1), rows

    def one_pass(self, tokens: Int64[Tensor, " T"]) -> Float[Tensor, "T V"]:
        """Scores of one pass of a fresh context over a text, all of it in one batch: the judge."""
        ids = tokens.cpu().numpy()[None]
        context = LlamaContext(self._model, sequences=1, batch=ids.shape[1], threads=torch.get_num_threads())
        return torch.from_numpy(context.decode(ids, 0, every=True)[0])
