"""Which reals of a state a codec stores in which way: ranges of columns, the same in every layer that has them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from precog.state.layers import LayerSubset
from precog.state.spec import StateSpec

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Columns:
    """Some of the columns of the kept layers' rows, layer by layer in rising order.

    Attributes:
        width: columns of a row, whatever its layer has of them.
        layers: per kept layer, the ranges that are stored.
    """

    width: int
    layers: tuple[Ranges, ...]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Reals per kept layer."""
        return tuple(sum(stop - start for start, stop in ranges) for ranges in self.layers)

    @cached_property
    def total(self) -> int:
        """Reals of all kept layers."""
        return sum(self.counts)

    @cached_property
    def is_everything(self) -> bool:
        """Whether these are all columns of all rows."""
        return self.total == self.width * len(self.layers)

    def groups(self, size: int) -> tuple[int, ...]:
        """Groups per kept layer, the last of each filled up."""
        return tuple(-(-count // size) for count in self.counts)

    def padded(self, size: int) -> int:
        """Reals of all kept layers when each layer is filled up to whole groups."""
        return sum(self.groups(size)) * size

    def gather(self, rows: NDArray[np.float32], size: int = 1) -> NDArray[np.float32]:
        """These reals in a line, every layer filled up with zeros to whole groups."""
        if self.is_everything and self.width % size == 0:
            return rows.reshape(-1)
        flat = np.zeros(self.padded(size), np.float32)
        for layer, start, stop, at in self._pieces(size):
            flat[at : at + stop - start] = rows[layer, start:stop]
        return flat

    def scatter(self, flat: NDArray[np.float32], rows: NDArray[np.float32], size: int = 1) -> None:
        """Puts back what `gather` took."""
        for layer, start, stop, at in self._pieces(size):
            rows[layer, start:stop] = flat[at : at + stop - start]

    def rows_of(self, flat: NDArray[np.float32], size: int = 1) -> NDArray[np.float32]:
        """Rows of what `gather` took, zeros for everything else; of the same memory where there is nothing else."""
        shape = (len(self.layers), self.width)
        if self.is_everything and self.width % size == 0:
            return flat.reshape(shape)
        rows = np.zeros(shape, np.float32)
        self.scatter(flat, rows, size)
        return rows

    def alone(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows with zeros for everything else."""
        return rows if self.is_everything else self.rows_of(self.gather(rows))

    def _pieces(self, size: int) -> Iterator[tuple[int, int, int, int]]:
        at = 0
        for layer, (ranges, count) in enumerate(zip(self.layers, self.counts, strict=True)):
            place = at
            for start, stop in ranges:
                yield layer, start, stop, place
                place += stop - start
            at += -(-count // size) * size


@dataclass(frozen=True)
class RowPlan:
    """The columns of a model's rows, parted by what they are.

    Attributes:
        scales: exponents m, of which 0.01 is 1 % of everything in their units.
        window: last inputs of a convolution or token shift, tails included.
        memory: everything else.
        scale_ranges: columns of scales, whether or not every layer has them.
        window_ranges: columns of the window.
    """

    scales: Columns
    window: Columns
    memory: Columns
    scale_ranges: Ranges
    window_ranges: Ranges

    @cached_property
    def everything_but_scales(self) -> Columns:
        """Window and memory as one."""
        return _joined(self.window, self.memory)

    @cached_property
    def everything(self) -> Columns:
        """All that a state has."""
        return _joined(self.scales, self.everything_but_scales)


@lru_cache(maxsize=16)
def row_plan(spec: StateSpec, layers: LayerSubset | None) -> RowPlan:
    """How the stored rows of a spec are made up: S columns of recurrent reals, then the tail where it is stored."""
    kept = range(spec.layers) if layers is None else layers.indices
    width = spec.stored_reals_per_layer
    tail = (spec.reals_per_layer, width)
    scales = _merged((position, position + 1) for position in spec.scale_positions)
    window = _without(_merged([spec.window]), scales)
    memory = _without(_without(((0, spec.reals_per_layer),), scales), window)
    reals = [spec.layer_reals[layer] if spec.layer_reals else spec.reals_per_layer for layer in kept]

    def columns(ranges: Ranges, also: Ranges = ()) -> Columns:
        return Columns(width, tuple(_merged([*_upto(ranges, count), *also]) for count in reals))

    return RowPlan(columns(scales), columns(window, (tail,)), columns(memory), scales, _merged([*window, tail]))


def _joined(some: Columns, others: Columns) -> Columns:
    pairs = zip(some.layers, others.layers, strict=True)
    return Columns(some.width, tuple(_merged([*one, *other]) for one, other in pairs))


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Rising, apart, none of them empty."""
    made: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(stop, made[-1][1]))
        else:
            made.append((start, stop))
    return tuple(made)


def _without(ranges: Ranges, holes: Ranges) -> Ranges:
    for hole, end in holes:
        ranges = _merged(part for start, stop in ranges for part in ((start, min(stop, hole)), (max(start, end), stop)))
    return ranges


def _upto(ranges: Ranges, count: int) -> Ranges:
    return tuple((start, min(stop, count)) for start, stop in ranges if start < count)
