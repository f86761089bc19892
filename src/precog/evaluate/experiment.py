"""An experiment: something measured item by item, whose records are kept and summed up afterwards.

Items do not depend on each other, so that a run can be stopped anywhere, gone on with, and shared by processes; what is
printed and what a report is made of are the same figures of the same records.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

__all__ = ["Experiment", "OnItem", "Record", "measured", "run"]

OnItem = Callable[[int, int], None]
Record = Mapping[str, object]
"""What was measured of one item: plain JSON data."""


@runtime_checkable
class Experiment(Protocol):
    """Something that can be measured."""

    @property
    def name(self) -> str:
        """Of the experiment, fit for a file's name."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """JSON data that decides the records: model, data, codec, seed, choices."""
        ...

    def __len__(self) -> int:
        """Items there are to measure."""
        ...

    def measure(self, number: int) -> Record:
        """Measure item ``number``, counted from 0; the same record whatever was measured before."""
        ...

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """Sum up the records of all items, in the order of the items: the JSON object of ``precog eval``."""
        ...


def measured(experiment: Experiment, on_item: OnItem = lambda done, total: None) -> list[Record]:
    """The records of all items; ``on_item`` is called with the number of items done, and of all."""
    records: list[Record] = []
    for number in range(len(experiment)):
        records.append(experiment.measure(number))
        on_item(number + 1, len(experiment))
    return records


def run(experiment: Experiment, on_item: OnItem = lambda done, total: None) -> dict[str, object]:
    """Measure everything, and sum it up."""
    return experiment.report(measured(experiment, on_item))
