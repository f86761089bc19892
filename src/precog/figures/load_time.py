"""How long what is kept of a chunk takes to load, platform by platform (paper, Fig. 4 and Table 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.errors import InputError
from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import picture
from precog.figures.checks import MOST_SERIES, Number, check_lengths, check_names, check_numbers
from precog.figures.hbars import ROW_INCHES, bar, name_rows, room_at_right, value
from precog.figures.lines import LONGEST_NAME, key, key_inches
from precog.figures.told import seconds_told, short

_TIME = Axis("load time", "s", "log")
_WIDTH_INCHES = 7.6
_MOST_ARTEFACTS = 6


@dataclass(frozen=True)
class Artefact:
    """What is loaded.

    Attributes:
        name: in the key, with its size.
        seconds: on each platform.
    """

    name: str
    seconds: Sequence[Number]


@dataclass(frozen=True)
class LoadTime:
    """Bars in groups, a group for each platform.

    Attributes:
        title: stands over the picture.
        platforms: names, from top to bottom.
        artefacts: with a value for each platform.
    """

    kind: ClassVar[str] = "load_time"
    title: str
    platforms: Sequence[str]
    artefacts: Sequence[Artefact]

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, or one has no place on a logarithmic axis.
        """
        check_names("platforms", self.platforms, most=MOST_SERIES)
        check_names("artefacts", [artefact.name for artefact in self.artefacts], most=_MOST_ARTEFACTS)
        for artefact in self.artefacts:
            check_lengths(artefact.name, self.platforms, artefact.seconds)
            check_numbers(f"{artefact.name}, {_TIME.name}", artefact.seconds, sign=_TIME.sign)

    def axes(self) -> Mapping[str, Axis]:
        """What the axis means."""
        return {"artefacts.seconds": _TIME}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        names = [artefact.name for artefact in self.artefacts]
        group = len(names) + 0.7
        low = min(second for artefact in self.artefacts for second in artefact.seconds) / 4
        high = max(second for artefact in self.artefacts for second in artefact.seconds)
        if not low < high:
            raise InputError("there is nothing to draw", given="no load time")
        rows = max(2.0, group) * len(self.platforms)
        height = 1.2 + ROW_INCHES * rows + key_inches(names, _WIDTH_INCHES)
        with picture(path, 1, title=self.title, width_inches=0.4 + _WIDTH_INCHES, height_inches=height) as [panel]:
            for number, artefact in enumerate(self.artefacts):
                for row, seconds in enumerate(artefact.seconds):
                    place = row * group + number
                    told = short(artefact.name, LONGEST_NAME) if row == 0 else None
                    bar(panel, place, low, seconds, style=number, told=told)
                    value(panel, place, seconds, seconds_told(seconds))
            set_axis(panel, "x", _TIME, [low, high])
            panel.set_xlim(low, room_at_right(low, high, 7, _WIDTH_INCHES - 2.5))
            middle = (len(names) - 1) / 2
            panel.set_ylim(group * len(self.platforms) - 0.7, -1.0)
            name_rows(panel, [row * group + middle for row in range(len(self.platforms))], self.platforms)
            key(panel, _WIDTH_INCHES)
