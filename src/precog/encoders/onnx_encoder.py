"""A sentence encoder as an ONNX graph, run by onnxruntime.

Each window runs alone, never padded and never in a batch. A graph that quantises its activations takes one scale for
a whole batch, so the key of a text would depend on its neighbours; and even where it does not (the default encoder:
1e-7), the last bits would, and indexing again would give other bytes. Nothing is lost: on one thread, 64 paragraphs
took 51 ms each alone and 53 ms each in sorted batches of eight.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnxruntime
from jaxtyping import Float32
from tokenizers import Tokenizer

from precog.errors import EncoderError

Pooling = Literal["mean", "cls", "max"]
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


@dataclass(frozen=True)
class EncoderFiles:
    """Where an encoder lies on the disk, and how its token vectors become a key.

    Attributes:
        name: for people.
        model: the ONNX graph.
        tokenizer: the ``tokenizer.json`` of the tokenizers library.
        window_tokens: word pieces that the encoder was made for, special pieces included.
        pooling: how the last hidden states become one vector.
        overlap_tokens: word pieces that two neighbouring windows share.
    """

    name: str
    model: Path
    tokenizer: Path
    window_tokens: int = 256
    pooling: Pooling = "mean"
    overlap_tokens: int = 32


class OnnxEncoder:
    """An ``Encoder`` over onnxruntime and the tokenizers library; one thread unless told otherwise.

    Raises:
        EncoderError: a file is missing, damaged, or no sentence encoder.
    """

    def __init__(self, files: EncoderFiles, *, num_threads: int = 1) -> None:
        self._files = files
        model, tokenizer = _read(files.model), _read(files.tokenizer)
        settings = json.dumps([files.window_tokens, files.pooling, files.overlap_tokens])
        # every part is hashed on its own first, so that no two splits of the same bytes look alike
        parts = (model, tokenizer, *_external_data(files.model), settings.encode())
        self._fingerprint = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        try:
            self._tokenizer = Tokenizer.from_buffer(tokenizer)
        except Exception as error:  # the library raises bare Exception
            raise EncoderError(
                "the encoder's tokenizer cannot be read", given=f"{files.tokenizer} ({error})"
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._session = _session(files.model, num_threads)
        inputs = {node.name for node in self._session.get_inputs()}
        if "input_ids" not in inputs or not inputs <= _INPUTS:
            raise EncoderError("this ONNX file is no sentence encoder", given=sorted(inputs), expected=sorted(_INPUTS))
        self._inputs = inputs
        self._head, self._tail = _special_pieces(self._tokenizer)
        self._dim = len(self._key(self._head + self._tail))

    @property
    def dim(self) -> int:
        """E, the width of a key."""
        return self._dim

    @property
    def fingerprint(self) -> str:
        """Sha256 over model, tokenizer and settings, in hexadecimal."""
        return self._fingerprint

    @property
    def window_tokens(self) -> int:
        """Word pieces that one key covers, special pieces included."""
        return self._files.window_tokens

    @property
    def name(self) -> str:
        """For people."""
        return self._files.name

    def encode_query(self, text: str) -> Float32[np.ndarray, " E"]:
        """The key of a question; one longer than a window gives the mean of its keys, normalised."""
        keys = self.encode_passages([text])[0]
        return keys[0] if len(keys) == 1 else _unit(keys.mean(axis=0))

    def encode_passages(self, texts: list[str]) -> list[Float32[np.ndarray, "_ E"]]:
        """The keys of each passage, one per window; a text without any word piece still has one."""
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [np.stack([self._key(window) for window in self._windows(e.ids)]) for e in encodings]

    def _windows(self, ids: list[int]) -> Iterator[list[int]]:
        room = self._files.window_tokens - len(self._head) - len(self._tail)
        if len(ids) <= room:
            yield self._head + ids + self._tail
            return
        # windows of equal length: a last window of three words would have a key that says nothing
        num_windows = -(-(len(ids) - self._files.overlap_tokens) // (room - self._files.overlap_tokens))
        starts = np.linspace(0, len(ids) - room, num_windows).round().astype(int)
        for start in starts:
            yield self._head + ids[start : start + room] + self._tail

    def _key(self, ids: list[int]) -> Float32[np.ndarray, " E"]:
        row = np.asarray([ids], dtype=np.int64)
        feeds = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        hidden = self._session.run(None, {name: feeds[name] for name in self._inputs})[0]
        if hidden.ndim == 2:  # the graph pools by itself
            return _unit(hidden[0])
        if self._files.pooling == "cls":
            return _unit(hidden[0, 0])
        return _unit(hidden[0].max(axis=0) if self._files.pooling == "max" else hidden[0].mean(axis=0))


def _unit(vector: npt.NDArray[np.floating]) -> Float32[np.ndarray, " E"]:
    norm = float(np.linalg.norm(vector))
    return np.asarray(vector / max(norm, 1e-12), dtype=np.float32)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EncoderError("the encoder's file cannot be read", given=f"{path} ({error.strerror})") from error


def _external_data(model: Path) -> list[bytes]:
    return [_read(path) for path in sorted(model.parent.glob(model.name + "[._]data"))]


def _session(model: Path, num_threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions derive from RuntimeError or Exception, by version
        first_line = str(error).partition("\n")[0]
        raise EncoderError("the encoder's ONNX file cannot be read", given=f"{model} ({first_line})") from error


def _special_pieces(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    with_special = tokenizer.encode("a").ids
    without = tokenizer.encode("a", add_special_tokens=False).ids
    for start in range(len(with_special) - len(without) + 1):
        if with_special[start : start + len(without)] == without:
            return with_special[:start], with_special[start + len(without) :]
    return [], []
