"""A GGUF file opened by llama.cpp, and contexts that compute with it; both free what they hold."""

import ctypes
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precog.backbones.gguf.layout import Batch
from precog.backbones.gguf.library import Library, load_library
from precog.errors import ModelError, StateError

_TEXT_BYTES = 1 << 16
_MAGIC = b"GGUF"
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

    Raises:
        ModelError: llama.cpp is missing; the file is damaged, or its model has no recurrent state or attention too.
    """

    def __init__(self, path: Path, *, use_gpu: bool = False) -> None:
        self.path, self.library = path, load_library()
        _check_magic(path)
        vocabulary = self._load(vocab_only=True, use_gpu=False)  # what a large file is, before all of it is read
        try:
            self.architecture = self._text(vocabulary, "general.architecture")
            self._check_recurrent(vocabulary)
        finally:
            self.library.functions.llama_model_free(vocabulary)
        self.handle = self._load(vocab_only=False, use_gpu=use_gpu)
        weakref.finalize(self, self.library.functions.llama_model_free, self.handle)
        self.vocab: int = self.library.functions.llama_model_get_vocab(self.handle)
        self.layers: int = self.library.functions.llama_model_n_layer(self.handle)

    def _load(self, *, vocab_only: bool, use_gpu: bool) -> int:
        params = self.library.model_params()
        params.vocab_only, params.n_gpu_layers = vocab_only, _ALL_LAYERS if use_gpu else 0
        self.library.log.clear()
        handle: int | None = self.library.functions.llama_model_load_from_file(bytes(self.path), params)
        if not handle:
            raise ModelError(f"llama.cpp cannot open this file: {self.library.log.reason}", given=self.path)
        return handle

    def _check_recurrent(self, handle: int) -> None:
        functions, name = self.library.functions, self.architecture
        if functions.llama_model_is_hybrid(handle):
            hint = "use its checkpoint with transformers: pip install 'precog-ssm[hf]'"
            raise ModelError("hybrid models in GGUF are not supported", given=f"{self.path} ({name})", hint=hint)
        if not functions.llama_model_is_recurrent(handle):
            expected = "a recurrent model: mamba, mamba2, rwkv6, rwkv7"
            raise ModelError("this model has no recurrent state", given=f"{self.path} ({name})", expected=expected)

    def metadata(self, key: str) -> str:
        """A text, number or truth value of the file's metadata, as text; empty where it has none."""
        return self._text(self.handle, key)

    def _text(self, handle: int, key: str) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        size = self.library.functions.llama_model_meta_val_str(handle, key.encode(), buffer, _TEXT_BYTES)
        return buffer.value.decode(errors="replace") if size >= 0 else ""


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelError(f"the model cannot be read: {error.strerror}", given=path) from error
    if start != _MAGIC:
        raise ModelError("this is no GGUF file", given=path, expected="a file that begins with GGUF")


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
        self._memory: int = functions.llama_get_memory(handle)
        self._vocab_size: int = functions.llama_vocab_n_tokens(model.vocab)
        if min(functions.llama_n_batch(handle), functions.llama_n_ubatch(handle)) < batch:
            raise ModelError("llama.cpp takes fewer tokens at once than asked for", given=model.path, expected=batch)

    def clear(self) -> None:
        """Forget every sequence."""
        self._library.functions.llama_memory_clear(self._memory, False)

    def decode(self, tokens: NDArray[np.int64], position: int, *, every: bool) -> NDArray[np.float32]:
        """Read tokens [G, T] in sequences 0 … G−1 from a position on: scores [G, n, V], n = T or 1.

        Raises:
            ModelError: llama.cpp refuses.
        """
        rows, length = tokens.shape
        total = rows * length
        ids = np.ascontiguousarray(tokens, dtype=np.int32)
        positions = np.tile(np.arange(position, position + length, dtype=np.int32), rows)
        counts = np.ones(total, dtype=np.int32)
        sequences = np.repeat(np.arange(rows, dtype=np.int32), length)
        pointers = sequences.ctypes.data + 4 * np.arange(total, dtype=np.uint64)
        outputs = np.zeros((rows, length), dtype=np.int8)
        outputs[:, 0 if every else -1 :] = 1
        parts = (ids.ctypes.data, None, positions.ctypes.data, counts.ctypes.data, pointers.ctypes.data)
        self._library.log.clear()
        status = self._library.functions.llama_decode(self._handle, Batch(total, *parts, outputs.ctypes.data))
        if status:
            reason = f"llama.cpp cannot read {total} tokens: status {status}, {self._library.log.reason}"
            raise ModelError(reason, given=self._model.path)
        shape = (int(outputs.sum()), self._vocab_size)
        scores = np.ctypeslib.as_array(self._library.functions.llama_get_logits(self._handle), shape)
        return scores.copy().reshape(rows, -1, self._vocab_size)

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
