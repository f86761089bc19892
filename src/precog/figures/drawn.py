"""Pictures with the numbers they were drawn from beside them, and pictures drawn from such numbers again."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from precog.errors import InputError
from precog.figures.axis import Axis
from precog.figures.bars import BarsWithIntervals
from precog.figures.canvas import check_target
from precog.figures.curves import Curves
from precog.figures.datafile import data_file_of, decoded, encoded, read
from precog.figures.error_growth import ErrorGrowth
from precog.figures.load_time import LoadTime
from precog.figures.memory_map import MemoryMap
from precog.figures.memory_pipeline import MemoryPipeline
from precog.figures.pareto import Pareto
from precog.figures.pipeline import Pipeline
from precog.figures.roofline import Roofline
from precog.figures.storage_scaling import StorageScaling
from precog.figures.trade_off import TradeOff
from precog.figures.waterfall import Waterfall
from precog.writing import output_file

KINDS = (
    BarsWithIntervals,
    Curves,
    ErrorGrowth,
    LoadTime,
    MemoryMap,
    MemoryPipeline,
    Pareto,
    Pipeline,
    Roofline,
    StorageScaling,
    TradeOff,
    Waterfall,
)
"""Every kind of picture that has a data file."""


@runtime_checkable
class Picture(Protocol):
    """A frozen dataclass of plain numbers and texts that knows how it is drawn."""

    kind: ClassVar[str]

    def axes(self) -> Mapping[str, Axis]:
        """What the numbers of its fields mean, and in which unit they are."""

    def draw(self, path: Path) -> None:
        """Draw it into one .png or .svg file."""


def draw(picture: Picture, path: Path) -> Path:
    """Draw a picture, and write its numbers beside it: ``fig.png`` and ``fig.json``.

    Each file appears whole or not at all, and the numbers only with the picture.

    Args:
        picture: one of `KINDS`.
        path: a .png or .svg file; one that is there is replaced.

    Returns:
        The file of the numbers.

    Raises:
        InputError: the picture cannot be drawn from these numbers.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: a file cannot be written, or one that holds no picture's numbers has the name of ours.
    """
    check_target(path)
    numbers = data_file_of(path)
    written = encoded(picture.kind, picture.axes(), picture)
    with output_file(numbers, "data of the picture", mode=0o644) as file:
        file.write(written)
        picture.draw(path)
    return numbers


def redraw(data_file: Path, path: Path) -> None:
    """Draw a picture from the numbers alone: byte for byte the one they were written beside.

    Raises:
        InputError: there is no such file, or no picture can be drawn from what it holds.
        UsageError: another suffix, or matplotlib is not installed.
        StorageError: the file cannot be written; nothing is left of it.
    """
    load(data_file).draw(path)


def load(data_file: Path) -> Picture:
    """A picture from the file of its numbers.

    Raises:
        InputError: there is no such file, or no picture can be drawn from what it holds.
    """
    name, data = read(data_file)
    kinds: dict[str, type[Picture]] = {kind.kind: kind for kind in KINDS}
    if name not in kinds:
        raise InputError(
            "there is no such kind of picture", given=f"{data_file}: {name}"[:200], expected=", ".join(kinds)
        )
    found: Picture = decoded(kinds[name], data)
    return found
