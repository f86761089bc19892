"""Several states side by side, as a model works on them: the branches of a beam, the rows of an encoding batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from precog.errors import ForeignStateError, StateError
from precog.state.foreign import titled
from precog.state.state import State, padded, stack_decay_time, stack_recurrent


@dataclass(frozen=True)
class StateBatch:
    """States of one model as rows of a batch, on the model's device; working data, never stored.

    Attributes:
        recurrent: [L, B, S].
        tail: [L, B, kernel − 1, N], or None where every row is at a boundary.
        decay_time: [L, B, g].
        num_tokens: tokens read, per row.
        fingerprint: of the backbone.
        encoding_dtype: compute dtype.
    """

    recurrent: Float[Tensor, "L B S"]
    tail: Float[Tensor, "L B J N"] | None
    decay_time: Float[Tensor, "L B g"]
    num_tokens: tuple[int, ...]
    fingerprint: str
    encoding_dtype: str = "float32"

    @classmethod
    def of(cls, states: Sequence[State], device: torch.device | str = "cpu") -> "StateBatch":
        """Copies of states side by side.

        Raises:
            ForeignStateError: they come from different models.
            StateError: there are none, or live and boundary states are mixed.
        """
        if not states:
            raise StateError("a batch of no states", expected="at least one")
        first = states[0]
        for state in states:
            if state.fingerprint != first.fingerprint:
                given, expected = titled("", state.fingerprint), titled("", first.fingerprint)
                raise ForeignStateError("states of different models cannot be mixed", given=given, expected=expected)
            if state.is_live != first.is_live:
                raise StateError("live and boundary states cannot be continued together", given=state, expected=first)
        tails = [tail for state in states if (tail := state.tail) is not None]
        return cls(
            recurrent=stack_recurrent(states, device),
            tail=torch.stack(tails, dim=1).to(device) if tails else None,
            decay_time=stack_decay_time(states, device),
            num_tokens=tuple(state.num_tokens for state in states),
            fingerprint=first.fingerprint,
            encoding_dtype=first.encoding_dtype,
        )

    def __len__(self) -> int:
        return self.recurrent.shape[1]

    def select(self, rows: Sequence[int] | Int64[Tensor, " B"]) -> "StateBatch":
        """The named rows, repeated where named twice: how branches are cut and grown."""
        index = torch.as_tensor(rows, dtype=torch.int64, device=self.recurrent.device)
        return StateBatch(
            recurrent=self.recurrent.index_select(1, index),
            tail=None if self.tail is None else self.tail.index_select(1, index),
            decay_time=self.decay_time.index_select(1, index),
            num_tokens=tuple(self.num_tokens[row] for row in index.tolist()),
            fingerprint=self.fingerprint,
            encoding_dtype=self.encoding_dtype,
        )

    def joined(self, other: "StateBatch") -> "StateBatch":
        """The rows of both, this one's first.

        Raises:
            StateError: live and boundary rows cannot stand in one batch, nor those of two models.
        """
        return StateBatch.side_by_side([self, other])

    @classmethod
    def side_by_side(cls, batches: Sequence["StateBatch"]) -> "StateBatch":
        """The rows of all batches in one, copied once; a single batch comes back as it is.

        Raises:
            StateError: live and boundary rows cannot stand in one batch, nor those of two models.
        """
        first, *others = batches
        if not others:
            return first
        for other in others:
            if first.fingerprint != other.fingerprint or (first.tail is None) != (other.tail is None):
                given, expected = (
                    f"{'boundary' if batch.tail is None else 'live'} states, {titled('', batch.fingerprint)}"
                    for batch in (other, first)
                )
                raise StateError("these batches cannot be joined", given=given, expected=expected)
        tails = [tail for batch in batches if (tail := batch.tail) is not None]
        longest = max(batch.recurrent.shape[2] for batch in batches)
        return StateBatch(
            recurrent=torch.cat([padded(batch.recurrent, longest) for batch in batches], dim=1),
            tail=torch.cat(tails, dim=1) if tails else None,
            decay_time=torch.cat([batch.decay_time for batch in batches], dim=1),
            num_tokens=tuple(count for batch in batches for count in batch.num_tokens),
            fingerprint=first.fingerprint,
            encoding_dtype=first.encoding_dtype,
        )

    def parts(self, sizes: Sequence[int]) -> list["StateBatch"]:
        """The rows cut into consecutive batches of some sizes, which share this one's memory."""
        made, start = [], 0
        for size in sizes:
            rows = slice(start, start + size)
            made.append(
                StateBatch(
                    recurrent=self.recurrent[:, rows],
                    tail=None if self.tail is None else self.tail[:, rows],
                    decay_time=self.decay_time[:, rows],
                    num_tokens=self.num_tokens[rows],
                    fingerprint=self.fingerprint,
                    encoding_dtype=self.encoding_dtype,
                )
            )
            start += size
        return made

    def row(self, index: int) -> State:
        """One row as a state of its own, in main memory; FP64 working states are rounded to FP32."""
        return State(
            self.recurrent[:, index].float().cpu(),
            tail=None if self.tail is None else self.tail[:, index].float().cpu(),
            num_tokens=self.num_tokens[index],
            fingerprint=self.fingerprint,
            decay_time=self.decay_time[:, index].float().cpu(),
            encoding_dtype=self.encoding_dtype,
        )
