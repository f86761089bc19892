"""Ways to spend bytes on a chunk: how many states are kept of it, of which layers, at how many bits a real."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from precog.errors import UsageError
from precog.state import Codec, LayerSubset, StateSpec

__all__ = ["KB", "Spending", "spendings"]

KB = 1024
"""Bytes in the unit of budgets."""
_ENDS = ("top", "bottom")


@dataclass(frozen=True)
class Spending:
    """What is kept of a chunk.

    Attributes:
        codec: that every state is stored in.
        layers: that are kept of every state.
        states: K, pieces that a chunk is cut into, each with a state of its own; 1 for the chunk's own state.
    """

    codec: Codec
    layers: LayerSubset
    states: int = 1

    @property
    def name(self) -> str:
        """Codec and layers, and the states where there are several: ``fp16 all``, ``int8 top:5 ×2``."""
        several = f" ×{self.states}" if self.states > 1 else ""
        return f"{self.codec.name} {self.layers.name}{several}"

    def num_bytes(self, spec: StateSpec) -> int:
        """Bytes of all its states, without the exponents of whole layers; see `Codec.state_bytes`."""
        return self.states * self.codec.state_bytes(spec, self.layers)

    def encoded_bytes(self, spec: StateSpec) -> int:
        """Bytes of all its states, exponents included."""
        return self.states * self.codec.encoded_bytes(spec, self.layers)


def spendings(
    budgets: Sequence[int], spec: StateSpec, codecs: Sequence[Codec], states: Sequence[int]
) -> list[Spending]:
    """What budgets can be spent on; what a smaller one is spent on may be kept under a larger one, too.

    For each codec and number of states it is the most layers that fit, since fewer of the same say less. They are
    counted from the top, and with one state from the bottom, too. An exact codec keeps all layers or is left out: at
    half its bits twice as many layers take as many bytes. Where states grow with the text, all layers are kept.

    Args:
        budgets: bytes for a chunk.
        spec: of the model.
        codecs: to choose from.
        states: numbers of states to choose from.

    Raises:
        UsageError: a budget is below the smallest way to spend it, which is named.
    """
    ladders = [
        list(_ladder(spec, codec, count, end))
        for count in states
        for codec in codecs
        for end in (_ENDS if count == 1 else _ENDS[:1])
    ]
    smallest = min((ladder[-1] for ladder in ladders), key=lambda spending: spending.num_bytes(spec))
    least = smallest.num_bytes(spec)
    if min(budgets) < least:
        expected = f"at least {-(-least // KB)} KB: the smallest, {smallest.name}, takes {least:,} bytes"
        raise UsageError(
            "--budgets: nothing fits into so few bytes", given=f"{min(budgets) // KB} KB", expected=expected
        )
    fitting = (
        next((spending for spending in ladder if spending.num_bytes(spec) <= budget), None)
        for budget in sorted(budgets)
        for ladder in ladders
    )
    return list(dict.fromkeys(spending for spending in fitting if spending is not None))


def _ladder(spec: StateSpec, codec: Codec, count: int, end: str) -> Iterator[Spending]:
    """All layers, then one fewer at a time."""
    yield Spending(codec, spec.kept_layers("all"), count)
    if not codec.is_exact and not spec.grows:
        for number in range(spec.layers - 1, 0, -1):
            yield Spending(codec, spec.kept_layers(f"{end}:{number}"), count)
