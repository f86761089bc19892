"""What the states cost that the K-dial retains of a chunk (paper §5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from precog.errors import UsageError
from precog.memory.dial import Dial, joint_positions
from precog.memory.settings import MemorySettings
from precog.state import Codec, LayerSubset, StateSpec


@dataclass(frozen=True)
class StateCost:
    """What one retained state takes on flash.

    Attributes:
        state_bytes: of the reals, in their codec and layers.
        decay_time_bytes: of τ beside them; 0 where it is not kept.
    """

    state_bytes: int
    decay_time_bytes: int = 0

    @classmethod
    def of(
        cls, spec: StateSpec, codec: Codec, layers: LayerSubset | None = None, *, keeps_decay_time: bool = True
    ) -> "StateCost":
        """In a codec and a subset of layers; τ is kept for all of them, as ``concat`` and ``permute`` need it."""
        return cls(codec.encoded_bytes(spec, layers), spec.decay_time_bytes if keeps_decay_time else 0)

    @property
    def num_bytes(self) -> int:
        """Both together."""
        return self.state_bytes + self.decay_time_bytes


def chunk_bytes(dials: Sequence[Dial], num_tokens: int, cost: StateCost) -> int:
    """Bytes of all states retained of one chunk, positions that levels share counted once."""
    return len(joint_positions(dials, num_tokens)) * cost.num_bytes


def check_budget(dials: Sequence[Dial], num_tokens: int, num_bytes: int, budget_bytes: int) -> int:
    """Bytes of one chunk's states, if they fit.

    Args:
        dials: levels.
        num_tokens: of the chunk, or of the longest that may come.
        num_bytes: of one state as it is kept.
        budget_bytes: what all states may take together.

    Raises:
        UsageError: they do not fit; with the largest K that does.
    """
    count = len(joint_positions(dials, num_tokens))
    if count * num_bytes <= budget_bytes:
        return count * num_bytes
    largest = budget_bytes // num_bytes
    wanted = ", ".join(map(str, dials))
    states = "1 state" if count == 1 else f"{count} states"
    raise UsageError(
        f"the states of a chunk do not fit into the budget at K = {wanted}",
        given=f"{states} of {num_bytes} B for {num_tokens} tokens: {count * num_bytes} B",
        expected=f"at most {budget_bytes} B",
        hint=f"the largest K that fits is {largest}" if largest else "not even one state fits: raise the budget",
    )


def check_dials(settings: MemorySettings, record_bytes: int) -> None:
    """Refuse settings of a memory with which the states of its longest chunk would expire as soon as they are made.

    Args:
        settings: of the memory.
        record_bytes: that one state takes of the budget.

    Raises:
        UsageError: they do not fit at one of the two dials; with the largest K that does.
    """
    dials = [Dial.parse(settings.dial_a), Dial.parse(settings.dial_b)]
    most = max(dials, key=lambda dial: dial.num_states(settings.chunk_tokens))
    check_budget([most], settings.chunk_tokens, record_bytes, settings.budget_bytes)
