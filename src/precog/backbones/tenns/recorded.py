"""Short passes for a GPU: recorded once as CUDA graphs, and replayed.

A pass launches some 700 kernels. One token, or a question, gives each of them less to do than it takes to be launched;
replayed, they are launched at once. A recording holds for one set of shapes, so rows, and tokens of a row, are rounded
up: rows do not see each other, padding changes nothing, and what nobody asked for costs little beside the weights,
which are read once for all of it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.backbones.tenns.model import TennsModel
from precog.backbones.tenns.step import model_step
from precog.ops.launching import on_device_of

MOST_ROWS = 256  # of a recorded step, which holds the states of all its rows twice
MOST_TOKENS = 1024  # of a recorded reading, padding counted: longer ones keep the device busy as they are
WARM_UP = 2  # passes of a kind that run plainly first: a few tokens are not worth a recording
_SHORTEST = 16  # tokens of a row that is read

Results = tuple[Tensor, Tensor, Tensor, Tensor]
_Kind = tuple[int, int, torch.dtype]  # rows, tokens of a row (none in a step), and what states are computed in


@dataclass(frozen=True)
class _Recording:
    """A graph with the memory it reads and writes."""

    graph: torch.cuda.CUDAGraph
    given: tuple[Tensor, ...]
    results: Results


class RecordedPasses:
    """Short passes of a model on a CUDA device; threads take turns.

    It holds programs and room, no state: what a call returns depends on what it was given alone. Results are those of
    the plain pass up to the last bits, because products of more rows may be summed otherwise; they are tensors of their
    own.

    Args:
        model: the network. Its weights may change in place; where they move, passes are recorded anew.
        dtype: compute dtype.
    """

    def __init__(self, model: TennsModel, dtype: torch.dtype) -> None:
        self._model, self._dtype = model, dtype
        self._weights = [*model.parameters(), *model.buffers()]
        self._places: list[int] = []
        self._lock = threading.Lock()
        self._seen: Counter[_Kind] = Counter()
        self._recordings: dict[_Kind, _Recording] = {}
        self._records = True
        self._pool: Any = None  # intermediate results of all recordings lie in the same memory
        self._stream: Any = None  # that they are recorded on
        self._taken: Any = None  # when the last results of any of them were taken out of that memory

    @torch.no_grad()
    def step(
        self, tokens: Int64[Tensor, " B"], state: Float[Tensor, "L B S"], tail: Float[Tensor, "L B J N"]
    ) -> Results | None:
        """As `model_step`, or None where it is to run plainly: many rows, or the first of their kind.

        Args:
            tokens: one id per row, on the device like all that follows.
            state: recurrent state.
            tail: convolution inputs before the token.

        Returns:
            Hidden vectors [B, d] after the last norm, new state, new tail and Δ [L, B, g].
        """
        rows = rounded(len(tokens))
        if rows > MOST_ROWS:
            return None

        def program(ids: Tensor, before: Tensor, window: Tensor) -> Results:
            return model_step(self._model, ids, before, window, self._dtype)

        with self._lock, on_device_of(state):
            recording = self._recording((rows, 0, state.dtype), state, program, lambda: [_ids(state, rows)])
            return None if recording is None else self._replay(recording, (tokens,), state, tail)

    @torch.no_grad()
    def read(
        self,
        tokens: Int64[Tensor, "B T"],
        lengths: Sequence[int],
        state: Float[Tensor, "L B S"],
        tail: Float[Tensor, "L B J N"] | None,
    ) -> Results | None:
        """Read segments from states, or None where they are to be read plainly: long ones, or the first of their kind.

        Args:
            tokens: right-padded with any ids, on the device like the states.
            lengths: tokens of each row.
            state: recurrent state.
            tail: convolution inputs before the first token; None at a boundary.

        Returns:
            Each row's last hidden vector [B, d], and state, tail and τ [L, B, g] after its last token.
        """
        rows, length = rounded(len(tokens), 4), max(_SHORTEST, rounded(tokens.shape[1]))
        if rows * length > MOST_TOKENS:
            return None

        def program(ids: Tensor, counts: Tensor, before: Tensor, window: Tensor) -> Results:
            read = self._model(ids, state=before, tail=window, lengths=counts, dtype=self._dtype)
            last = read.hidden[torch.arange(rows, device=ids.device), counts - 1]
            return last, read.state, read.tail, read.decay_time

        def empty() -> list[Tensor]:
            return [_ids(state, rows, length), _ids(state, rows) + 1]

        counts = torch.tensor(list(lengths), device=tokens.device)
        with self._lock, on_device_of(state):
            recording = self._recording((rows, length, state.dtype), state, program, empty)
            return None if recording is None else self._replay(recording, (tokens, counts), state, tail)

    def _recording(
        self, kind: _Kind, like: Tensor, program: Callable[..., Results], empty: Callable[[], list[Tensor]]
    ) -> _Recording | None:
        """That of a kind, for states like these; None while there is none."""
        places = [weight.data_ptr() for weight in self._weights]
        if places != self._places:  # a graph reads the memory it was recorded with, whatever stands there
            self._places, self._recordings, self._pool = places, {}, None
            self._seen.clear()
        self._seen[kind] += 1
        if kind not in self._recordings and self._seen[kind] > WARM_UP and self._records:
            try:
                self._recordings[kind] = self._record(kind[0], like, program, empty())
            except RuntimeError:  # no memory, or a driver without graphs: passes run as they do without
                self._records = False
        return self._recordings.get(kind)

    def _record(self, rows: int, like: Tensor, program: Callable[..., Results], ids: list[Tensor]) -> _Recording:
        config = self._model.config
        before = like.new_zeros(len(like), rows, like.shape[2])
        window = like.new_zeros(len(like), rows, config.kernel - 1, config.inner, dtype=self._dtype)
        given = (*ids, before, window)
        program(*given)  # kernels are compiled for these shapes, which a recording has no time for
        torch.cuda.synchronize()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
            # torch leaves both untyped; its own stream for recordings is one device's
            self._stream, self._taken = torch.cuda.Stream(), torch.cuda.Event()  # type: ignore[no-untyped-call]
        graph, own = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # other threads may use the device meanwhile
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                results = program(*given)
        finally:
            torch.cuda.set_stream(own)  # where a recording breaks off, torch stays on the other one
        return _Recording(graph, given, results)

    def _replay(self, recording: _Recording, ids: tuple[Tensor, ...], state: Tensor, tail: Tensor | None) -> Results:
        """The rows asked for, of a pass that has more."""
        rows = state.shape[1]
        self._taken.wait()  # whoever came before, with whatever recording, may have used another stream
        *places, before, window = recording.given
        for place, values in zip(places, ids, strict=True):
            place[tuple(map(slice, values.shape))] = values
        before[:, :rows] = state
        if tail is None:
            window[:, :rows] = 0
        else:
            window[:, :rows] = tail
        recording.graph.replay()
        hidden, *others = recording.results
        after, inputs, time = (part[:, :rows].clone() for part in others)
        results = hidden[:rows].clone(), after, inputs, time
        self._taken.record()
        return results


def _ids(like: Tensor, *shape: int) -> Tensor:
    return like.new_zeros(shape, dtype=torch.int64)


def rounded(count: int, base: int = 2) -> int:
    """The next power of two, or of four: readings have fewer kinds of rows, because each has many kinds of lengths."""
    power = 1
    while power < count:
        power *= base
    return power
