"""llama.cpp's bytes of one sequence's memory, as rows of reals and back.

A recurrent model writes 32-bit words: magic, sequence, number of cells (1), position, number of sequences (0), whether
S is transposed (0), number of layers; then of each layer type (0, FP32), bytes of R as 64 bits, and R: the last inputs
of the convolution or token shift; then the same of S, the memory proper. Nothing in it names the model, and llama.cpp
accepts a flipped byte without a word, so all that is not a real is compared with what the model itself wrote.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precog.errors import ModelError, StateError

Words = NDArray[np.uint32]
Rows = NDArray[np.float32]

_HEADER = 7  # words before the first layer
_CELLS, _POSITION, _TRANSPOSED, _LAYERS = 2, 3, 5, 6
_MARK = 3  # words before each row: its type, and its bytes as 64 bits


@dataclass(frozen=True)
class BlobLayout:
    """Where the reals stand in a blob.

    Attributes:
        template: words of a blob, its reals zero.
        layers: L.
        window: reals of R per layer.
        memory: reals of S per layer.
    """

    template: Words
    layers: int
    window: int
    memory: int

    @classmethod
    def of(cls, blob: NDArray[np.uint8], layers: int) -> "BlobLayout":
        """The layout of a blob that a model of ``layers`` layers has just written.

        Raises:
            ModelError: it is laid out in a way that is not known.
        """
        if blob.size < 4 * (_HEADER + _MARK) or blob.size % 4:
            raise _unknown(f"{blob.size} bytes")
        words = blob.view(np.uint32).copy()
        cells, position, _, transposed, found = words[_CELLS : _LAYERS + 1].tolist()
        window = int(words[_HEADER + 1]) // 4
        rest = words.size - _HEADER - layers * (_MARK + window)
        memory = rest // layers - _MARK
        if (cells, transposed, found) != (1, 0, layers) or memory < 1 or rest % layers:
            raise _unknown(f"{cells} cells, transposed {transposed}, {found} layers, position {position}")
        layout = cls(words, layers, window, memory)
        for part, reals in zip(layout._parts(words), (window, memory), strict=True):
            if (part[:, :_MARK] != (0, 4 * reals, 0)).any():
                raise _unknown(f"rows of type and bytes {part[0, :_MARK].tolist()}")
            part[:, _MARK:] = 0
        return layout

    @property
    def reals(self) -> int:
        """Reals per layer: R, then S."""
        return self.window + self.memory

    def _parts(self, words: Words) -> tuple[Words, Words]:
        """R and S of every layer with their marks, as views."""
        middle = _HEADER + self.layers * (_MARK + self.window)
        return words[_HEADER:middle].reshape(self.layers, -1), words[middle:].reshape(self.layers, -1)

    def rows(self, blob: NDArray[np.uint8]) -> Rows:
        """The reals [L, R + S] of a blob.

        Raises:
            StateError: it is laid out in another way than this model's.
        """
        if blob.size != 4 * self.template.size:
            expected = 4 * self.template.size
            raise StateError("llama.cpp gave a state of another size", given=f"{blob.size} bytes", expected=expected)
        words = blob.view(np.uint32)
        header = words[:_HEADER].copy()
        header[_POSITION] = self.template[_POSITION]
        header[1] = self.template[1]
        parts = self._parts(words)
        marks = [part[:, :_MARK] for part in (*parts, *self._parts(self.template))]
        if (header != self.template[:_HEADER]).any() or any((marks[i] != marks[i + 2]).any() for i in (0, 1)):
            raise StateError("llama.cpp gave a state of another layout", hint="this build changes layouts as it runs")
        return np.concatenate([part[:, _MARK:] for part in parts], axis=1).view(np.float32)

    def blob(self, rows: Rows, position: int) -> NDArray[np.uint8]:
        """The bytes that restore rows, at a position.

        Raises:
            StateError: rows of another shape.
        """
        if rows.shape != (self.layers, self.reals):
            raise StateError("rows of another shape", given=rows.shape, expected=(self.layers, self.reals))
        words = self.template.copy()
        words[_POSITION] = position
        reals = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
        for part, values in zip(self._parts(words), np.split(reals, [self.window], axis=1), strict=True):
            part[:, _MARK:] = values
        return words.view(np.uint8)


def _unknown(given: str) -> ModelError:
    hint = "only pure recurrent models can be used, with a tested version of llama.cpp"
    return ModelError("llama.cpp lays out this model's states in an unknown way", given=given, hint=hint)
