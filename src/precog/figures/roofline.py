"""Tokens per second over context length, platform by platform: bound by bandwidth (paper, Fig. 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from precog.errors import InputError
from precog.figures.axis import Axis, set_axis
from precog.figures.canvas import INK, picture
from precog.figures.checks import Number
from precog.figures.lines import Level, Line, check_lines, check_marks, draw_levels, draw_lines, key, key_inches
from precog.figures.told import number_told

_TOKENS = Axis("active context", "tokens", "log")
_SPEED = Axis("generation", "tokens/s", "log")
_WIDTH_INCHES = 7.6


@dataclass(frozen=True)
class PlatformSpeed:
    """One platform.

    Attributes:
        name: in the key.
        cache: tokens per second at each length with a KV cache.
        state: the same with a state.
    """

    name: str
    cache: Sequence[Number]
    state: Sequence[Number]


@dataclass(frozen=True)
class Roofline:
    """What bandwidth allows.

    Attributes:
        title: stands over the picture.
        tokens: lengths of the active context.
        platforms: each with two values for each length.
        half_tokens: where a cache takes as many bytes as the weights, so that speed has halved; None for no mark.
        cache_name: what the solid lines are.
        state_name: what the dashed lines are.
    """

    kind: ClassVar[str] = "roofline"
    title: str
    tokens: Sequence[Number]
    platforms: Sequence[PlatformSpeed]
    half_tokens: Number | None = None
    cache_name: str = "KV cache"
    state_name: str = "state"

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: there are none, or one has no place on a logarithmic axis.
        """
        if not self.platforms:
            raise InputError("there is nothing to draw", given="0 platforms", expected="at least one")
        for lines in self._lines():
            check_lines(lines, _TOKENS, _SPEED, what="platforms")
        check_marks(self._half(), _TOKENS, _SPEED)

    def axes(self) -> Mapping[str, Axis]:
        """What each axis means."""
        return {"tokens": _TOKENS, "platforms.cache": _SPEED, "platforms.state": _SPEED}

    def draw(self, path: Path) -> None:
        """Draw it; raises as `precog.figures.draw`."""
        caches, states = self._lines()
        half = self._half()
        kinds = [f"solid: {self.cache_name}", f"dashed: {self.state_name}"]
        names = [*(platform.name for platform in self.platforms), *kinds, *(level.text for level in half)]
        height = 0.4 + 4.6 + key_inches(names, _WIDTH_INCHES)
        with picture(path, 1, title=self.title, width_inches=0.4 + _WIDTH_INCHES, height_inches=height) as [panel]:
            draw_lines(panel, caches, dash="-")
            drawn = len(panel.lines)
            draw_lines(panel, states, dash="--", hollow=True)
            for line in panel.lines[drawn:]:
                line.set_label("_")  # its platform is in the key already
            for told, dash in zip(kinds, ("-", "--"), strict=True):
                panel.plot([], [], color=INK, linestyle=dash, label=told)
            draw_levels(panel, half)
            speeds = [speed for line in [*caches, *states] for speed in line.ys]
            places = [*self.tokens, *(level.x for level in half if level.x is not None)]
            set_axis(panel, "x", _TOKENS, places)
            set_axis(panel, "y", _SPEED, speeds)
            key(panel, _WIDTH_INCHES)

    def _lines(self) -> tuple[list[Line], list[Line]]:
        caches = [Line(platform.name, self.tokens, platform.cache) for platform in self.platforms]
        return caches, [Line(platform.name, self.tokens, platform.state) for platform in self.platforms]

    def _half(self) -> list[Level]:
        if self.half_tokens is None:
            return []
        return [Level(f"half the speed: {number_told(self.half_tokens)} tokens", self.half_tokens)]
