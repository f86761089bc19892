"""What a thread asks the model for, and waits for."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Int64
from torch import Tensor

from precog.backbones.protocol import Backbone
from precog.engine.decode import DecodedToken, Ending
from precog.engine.sampling import Sampling
from precog.state import State, StateBatch

T = TypeVar("T")


class Request(Generic[T]):
    """One thing asked for by one thread.

    Args:
        user: whose.
        cancelled: set when the asker has gone.
    """

    def __init__(self, user: str, cancelled: threading.Event) -> None:
        self.user = user
        self.cancelled = cancelled
        self.on_end: Callable[[Request[Any]], None] = lambda _: None
        self.has_ended = False
        self.num_read = 0  # tokens
        self._future: Future[T] = Future()

    @property
    def has_gone(self) -> bool:
        """Whether nobody waits any more."""
        return self.cancelled.is_set()

    @property
    def num_generated(self) -> int:
        """Tokens of answers, so far."""
        return 0

    def done(self, result: T) -> None:
        """Hands the result over."""
        if not self.has_ended:
            self._end()
            self._future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Lets the waiting thread have an error."""
        if not self.has_ended:
            self._end()
            self._future.set_exception(error)

    def _end(self) -> None:
        self.has_ended = True
        self.on_end(self)

    def wait(self) -> T:
        """The result, once it is there; what went wrong is raised."""
        return self._future.result()


class _Rows(Request[tuple[StateBatch, Tensor]]):
    """Whatever goes on from the rows of a batch.

    Attributes:
        batch: the states so far.
    """

    def __init__(self, user: str, cancelled: threading.Event, batch: StateBatch) -> None:
        super().__init__(user, cancelled)
        self.batch = batch

    @property
    def is_live(self) -> bool:
        """Whether its states are in the middle of a segment."""
        return self.batch.tail is not None


class Step(_Rows):
    """One token for every row of a batch."""

    def __init__(self, user: str, cancelled: threading.Event, batch: StateBatch, token_ids: Sequence[int]) -> None:
        super().__init__(user, cancelled, batch)
        self.token_ids = list(token_ids)

    @property
    def num_generated(self) -> int:
        """One a row."""
        return len(self.token_ids)


class Read(_Rows):
    """A segment for every row of a batch, read piece by piece.

    Attributes:
        tokens: what is left to be read.
    """

    def __init__(self, user: str, cancelled: threading.Event, batch: StateBatch, tokens: Int64[Tensor, "B T"]) -> None:
        super().__init__(user, cancelled, batch)
        self.tokens = tokens
        self.num_read = tokens.numel()

    def piece(self, most: int) -> int:
        """Tokens of each row that the next pass reads when it may read so many in all."""
        return min(self.tokens.shape[1], max(1, most // max(1, self.tokens.shape[0])))

    def advance(self, batch: StateBatch, count: int) -> bool:
        """Takes over the states after ``count`` more tokens; whether that was all."""
        self.batch, self.tokens = batch, self.tokens[:, count:]
        return not self.tokens.shape[1]


class Encode(Request[list[State]]):
    """Chunks, read from nothing, some at a time.

    Args:
        user: whose.
        cancelled: set when the asker has gone.
        backbone: the model, its stored states with the room that the asker wants.
        chunks: token ids of each.
        lengths: tokens that are read for each.
    """

    def __init__(
        self,
        user: str,
        cancelled: threading.Event,
        backbone: Backbone,
        chunks: Sequence[Sequence[int]],
        lengths: Sequence[int],
    ) -> None:
        super().__init__(user, cancelled)
        self.backbone, self.chunks, self.lengths = backbone, chunks, lengths
        self.num_read = sum(lengths)
        # those of similar lengths together, so that little is padded
        self._left = sorted(range(len(chunks)), key=lambda i: (-lengths[i], i))
        self._states: dict[int, State] = {}

    def next_chunks(self, most: int) -> list[int]:
        """Which chunks the next pass reads when it may read ``most`` tokens; none where the first is too long."""
        chosen: list[int] = []
        for i in reversed(self._left):
            most -= self.lengths[i]
            if most < 0:
                break
            chosen.append(i)
        return chosen

    @property
    def first(self) -> list[int]:
        """The next chunk alone, however long."""
        return self._left[-1:]

    def advance(self, read: Sequence[int], states: Sequence[State]) -> None:
        """Takes over the states of the chunks that were read."""
        self._states |= zip(read, states, strict=True)
        del self._left[len(self._left) - len(read) :]
        if not self._left:
            self.done([self._states[i] for i in range(len(self.chunks))])


class Call(Request[T]):
    """Anything else, which has the model alone."""

    def __init__(self, user: str, cancelled: threading.Event, call: Callable[[], T]) -> None:
        super().__init__(user, cancelled)
        self._call, self._gradients = call, torch.is_grad_enabled()

    def run(self) -> None:
        """Does it, with gradients if the asker wants them."""
        with torch.set_grad_enabled(self._gradients):
            self.done(self._call())


class Stream(Read):
    """A question that is read, and then its answer, token by token.

    Args:
        user: whose.
        cancelled: set when the asker has gone.
        batch: the state, as one row.
        question_ids: the question's segment.
        ending: where the answer ends.
        sampling: how tokens are chosen.
    """

    def __init__(
        self,
        user: str,
        cancelled: threading.Event,
        batch: StateBatch,
        question_ids: Sequence[int],
        ending: Ending,
        sampling: Sampling,
    ) -> None:
        super().__init__(user, cancelled, batch, torch.tensor([list(question_ids)], dtype=torch.int64))
        self.ending, self.sampling = ending, sampling
        self.generator = None if sampling.is_greedy else sampling.generator()
        self._processed = len(question_ids)
        self._left = False
        self._tokens: SimpleQueue[DecodedToken | BaseException | None] = SimpleQueue()

    @property
    def has_gone(self) -> bool:
        """Whether nobody waits any more."""
        return self._left or self.cancelled.is_set()

    @property
    def num_generated(self) -> int:
        """Tokens that were handed over."""
        return self._processed - self.num_read

    def leave(self) -> None:
        """Nobody wants the rest."""
        self._left = True

    def take(self, token_id: int, log_probability: float) -> bool:
        """Hands a token over; whether the answer goes on after it."""
        if self.has_ended:
            return False
        if not self.ending.takes(token_id):
            self._finish(None)
            return False
        self._tokens.put(DecodedToken(token_id, log_probability, self._processed))
        self._processed += 1
        if self.ending.is_full:
            self._finish(None)
            return False
        return True

    def fail(self, error: BaseException) -> None:
        """Lets the waiting thread have an error."""
        self._finish(error)

    def _finish(self, last: BaseException | None) -> None:
        if not self.has_ended:
            self._end()
            self._tokens.put(last)

    def next(self) -> DecodedToken | None:
        """The next token, once it is there; None at the end; what went wrong is raised."""
        found = self._tokens.get()
        if isinstance(found, BaseException):
            raise found
        return found
