"""A GGUF file opened by llama.cpp, and contexts that compute with it; both free what they hold."""

import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precog.backbones.gguf.layout import Batch
from precog.backbones.gguf.library import Library, load_library
from precog.backbones.gguf.probe import architecture_of, load_file, metadata
from precog.errors import ModelError, StateError

_ALL_LAYERS = 1 << 20


class LlamaModel:
    """Weights and vocabulary of a pure recurrent model.

    Args:
        path: of the file.
        use_gpu: compute on the GPU where this build of llama.cpp can.

    Attributes:
        architecture: as the file names it.
        layers: L.
        vocab: handle of its vocabulary.
        is_fp32: whether all its weights are FP32.

    Raises:
        ModelError: llama.cpp is missing; the file is damaged, or its model has no recurrent state or attention too.
    """

    def __init__(self, path: Path, *, use_gpu: bool = False) -> None:
        self.path, self.library = path, load_library()
        self.architecture = architecture_of(path)
        self.handle = load_file(self.library, path, vocab_only=False, gpu_layers=_ALL_LAYERS if use_gpu else 0)
        weakref.finalize(self, self.library.functions.llama_model_free, self.handle)
        self.vocab: int = self.library.functions.llama_model_get_vocab(self.handle)
        self.layers: int = self.library.functions.llama_model_n_layer(self.handle)
        functions = self.library.functions  # the file's own word for its precision is often missing
        self.is_fp32 = functions.llama_model_size(self.handle) == 4 * functions.llama_model_n_params(self.handle)

    def metadata(self, key: str) -> str:
        """A text, number or truth value of the file's metadata, as text; empty where it has none."""
        return metadata(self.library, self.handle, key)


class LlamaContext:
    """What llama.cpp computes with: memory of a few sequences. Not re-entrant: its owner locks.

    Args:
        model: whose weights.
        sequences: most sequences at once.
        batch: most tokens at once.
        threads: of the CPU.

    Raises:
        ModelError: llama.cpp cannot make it: memory, or an architecture it only loads.
    """

    def __init__(self, model: LlamaModel, *, sequences: int, batch: int, threads: int) -> None:
        self._model = model  # freed after its contexts
        self._library: Library = model.library
        functions = self._library.functions
        params = self._library.context_params()
        params.n_ctx = batch * sequences  # each sequence gets an equal part; recurrent memory is not limited by it
        params.n_batch = params.n_ubatch = batch
        params.n_outputs_max = batch
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = threads
        self._library.log.clear()
        handle: int | None = functions.llama_init_from_model(model.handle, params)
        if not handle:
            raise ModelError(f"llama.cpp cannot use this model: {self._library.log.reason}", given=model.path)
        weakref.finalize(self, functions.llama_free, handle)
        self._handle: int = handle
        self._paired = sequences > 1 and not model.is_fp32 and model.architecture != "mamba"
        self._memory: int = functions.llama_get_memory(handle)
        self._vocab_size: int = functions.llama_vocab_n_tokens(model.vocab)
        if min(functions.llama_n_batch(handle), functions.llama_n_ubatch(handle)) < batch:
            raise ModelError("llama.cpp takes fewer tokens at once than asked for", given=model.path, expected=batch)

    def clear(self) -> None:
        """Forget every sequence."""
        self._library.functions.llama_memory_clear(self._memory, False)

    def decode(self, tokens: NDArray[np.int64], position: int, *, every: bool) -> NDArray[np.float32]:
        """Read tokens [G, T] in sequences 0 … G−1 from a position on: scores [G, n, V], n = T or 1.

        llama.cpp multiplies a lone vector in another order than several at once, which shows in the third digit where
        weights are of FP16 or quantised. There a lone token is read beside a second one, in a sequence of its own that
        nobody looks at, and steps say what one pass says, at up to twice the time. (Mamba-1 multiplies each sequence
        by itself; it would gain nothing.) A lone score is asked for beside a second one, too.

        Raises:
            ModelError: llama.cpp refuses.
        """
        asked, length = tokens.shape
        if tokens.size == 1 and self._paired:
            tokens = np.concatenate([tokens, tokens])
        rows = tokens.shape[0]
        total = rows * length
        ids = np.ascontiguousarray(tokens, dtype=np.int32)
        positions = np.tile(np.arange(position, position + length, dtype=np.int32), rows)
        counts = np.ones(total, dtype=np.int32)
        sequences = np.repeat(np.arange(rows, dtype=np.int32), length)
        pointers = sequences.ctypes.data + 4 * np.arange(total, dtype=np.uint64)
        outputs = np.zeros((rows, length), dtype=np.int8)
        kept = length if every else min(length, 2 if rows == 1 else 1)
        outputs[:, length - kept :] = 1
        parts = (ids.ctypes.data, None, positions.ctypes.data, counts.ctypes.data, pointers.ctypes.data)
        self._library.log.clear()
        status = self._library.functions.llama_decode(self._handle, Batch(total, *parts, outputs.ctypes.data))
        if status:
            reason = f"llama.cpp cannot read {total} tokens: status {status}, {self._library.log.reason}"
            raise ModelError(reason, given=self._model.path)
        shape = (rows, kept, self._vocab_size)
        scores = np.ctypeslib.as_array(self._library.functions.llama_get_logits(self._handle), shape)
        return scores[:asked, 0 if every else -1 :].copy()

    def state(self, sequence: int) -> NDArray[np.uint8]:
        """The bytes of a sequence's memory."""
        functions = self._library.functions
        blob = np.empty(functions.llama_state_seq_get_size(self._handle, sequence), dtype=np.uint8)
        done = functions.llama_state_seq_get_data(self._handle, blob.ctypes.data, blob.size, sequence)
        if done != blob.size:
            raise StateError("llama.cpp did not give a state", given=f"{done} bytes", expected=blob.size)
        return blob

    def restore(self, sequence: int, blob: NDArray[np.uint8]) -> None:
        """Put a sequence's memory back.

        Raises:
            StateError: llama.cpp refuses it.
        """
        self._library.log.clear()
        done = self._library.functions.llama_state_seq_set_data(self._handle, blob.ctypes.data, blob.size, sequence)
        if done != blob.size:
            reason = f"llama.cpp did not take a state: {self._library.log.reason}"
            raise StateError(reason, given=f"{done} bytes", expected=blob.size)
