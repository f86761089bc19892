"""Timing: warm-up, interleaved rounds, medians.

Everything that is compared is measured in the same rounds, one after the other, in an order that turns round each
time: whatever disturbs the machine disturbs all sides alike.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Side = Callable[[int], Mapping[str, float]]
"""One side of a comparison: takes the number of the round, returns seconds by name."""


@dataclass(frozen=True)
class Samples:
    """Seconds of the same thing, round by round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the rounds took longer."""
        return statistics.median(self.seconds)

    def quantile(self, share: float) -> float:
        """The value that this share of the rounds stayed below, interpolated."""
        ordered = sorted(self.seconds)
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        # written so that rounding never leaves the two values
        return min(ordered[high], ordered[low] + (place - low) * (ordered[high] - ordered[low]))

    def to_json(self) -> dict[str, float]:
        """Median and the middle four fifths, in seconds."""
        return {"median_sec": self.median, "p10_sec": self.quantile(0.1), "p90_sec": self.quantile(0.9)}


@dataclass(frozen=True)
class Rounds:
    """What interleaved rounds measured, by name; equal positions come from the same round."""

    samples: Mapping[str, Samples]

    def __getitem__(self, name: str) -> Samples:
        return self.samples[name]

    def combined(self, plus: Sequence[str], minus: Sequence[str] = ()) -> Samples:
        """Sums and differences round by round: steadier than sums of medians when the machine is busy."""
        columns = [self.samples[name].seconds for name in plus] + [
            tuple(-value for value in self.samples[name].seconds) for name in minus
        ]
        return Samples(tuple(sum(row) for row in zip(*columns, strict=True)))

    def ratio(self, over: str, under: str) -> float:
        """Median over rounds of the quotient of two sides measured in the same round."""
        pairs = zip(self.samples[over].seconds, self.samples[under].seconds, strict=True)
        return statistics.median(a / b for a, b in pairs)


def timed(name: str, function: Callable[[int], object], prepare: Callable[[int], object] | None = None) -> Side:
    """A side that times one call; ``prepare`` runs before the clock starts."""

    def side(number: int) -> dict[str, float]:
        if prepare is not None:
            prepare(number)
        started = time.perf_counter()
        function(number)
        return {name: time.perf_counter() - started}

    return side


def interleave(sides: Sequence[Side], *, repeats: int, warm_up: int) -> Rounds:
    """Measures all sides in each round.

    Args:
        sides: what is compared.
        repeats: rounds that count.
        warm_up: rounds before them that do not.
    """
    found: dict[str, list[float]] = {}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for number in range(warm_up + repeats):
            for side in sides if number % 2 == 0 else reversed(sides):
                for name, seconds in side(number).items():
                    if number >= warm_up:
                        found.setdefault(name, []).append(seconds)
    finally:
        if collecting:
            gc.enable()
    return Rounds({name: Samples(tuple(seconds)) for name, seconds in found.items()})
