"""One schema for every measurement: figures, the ratios they are held to, and everything needed to read them later."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from precog.bench.machine import Machine, git_commit, versions

Value = str | int | float | bool | None | list[Any] | dict[str, Any]


@dataclass(frozen=True)
class Ratio:
    """A figure that is held to a bound.

    Attributes:
        value: what was measured.
        target: the bound.
        at_most: whether the value must not exceed the bound; otherwise it must reach it.
        meaning: numerator and denominator in words.
    """

    value: float
    target: float
    at_most: bool
    meaning: str

    @property
    def ok(self) -> bool:
        """Whether the bound holds; a value that is no number never does."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def to_json(self) -> dict[str, Value]:
        """Plain data."""
        return {
            "value": finite(self.value),
            "relation": "<=" if self.at_most else ">=",
            "target": self.target,
            "ok": self.ok,
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class Subject:
    """The model that was measured.

    Attributes:
        name: as people call it; ``random:PRESET`` for one that was never trained (its timings are the same).
        parameters: tied ones once.
        dtype: compute dtype.
        device: where it computed.
        state_bytes: of one encoded state.
    """

    name: str
    parameters: int
    dtype: str
    device: str
    state_bytes: int

    def to_json(self) -> dict[str, Value]:
        """Plain data."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "dtype": self.dtype,
            "device": self.device,
            "state_bytes": self.state_bytes,
        }


@dataclass(frozen=True)
class Result:
    """What one measurement found.

    Attributes:
        name: of the measurement, such as ``ttft``.
        values: figures; the unit stands in the key (``_sec``, ``_bytes``, ``_per_sec``).
        ratios: what is held to a bound.
        ceiling: what the machine can do at best, measured in the same run.
        machine: where.
        subject: which model; None where none took part.
        warm_up: rounds that were thrown away.
        repeats: rounds that count, where a value does not say its own.
        quick: whether sizes were cut down so that it ends in seconds; such figures show that it works, nothing else.
        date: when, UTC, ISO 8601.
        notes: how the figures are to be read.
    """

    name: str
    values: Mapping[str, Value]
    ratios: Mapping[str, Ratio]
    ceiling: Mapping[str, Value]
    machine: Machine
    warm_up: int
    repeats: int
    subject: Subject | None = None
    quick: bool = False
    notes: tuple[str, ...] = ()
    date: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))

    @property
    def ok(self) -> bool:
        """Whether every bound holds."""
        return all(ratio.ok for ratio in self.ratios.values())

    def to_json(self) -> dict[str, Value]:
        """Plain data, the same keys for every measurement."""
        found: dict[str, Value] = {}
        found.update(versions())
        return {
            "name": self.name,
            "ok": self.ok,
            "ratios": {name: ratio.to_json() for name, ratio in self.ratios.items()},
            "values": {name: finite(value) for name, value in self.values.items()},
            "ceiling": {name: finite(value) for name, value in self.ceiling.items()},
            "model": None if self.subject is None else self.subject.to_json(),
            "machine": {name: finite(value) for name, value in self.machine.to_json().items()},
            "versions": found,
            "git_commit": git_commit(),
            "date": self.date,
            "warm_up": self.warm_up,
            "repeats": self.repeats,
            "quick": self.quick,
            "notes": list(self.notes),
        }


def finite(value: object) -> Value:
    """A value as JSON can carry it: no infinity, none that is no number, six significant digits."""
    if isinstance(value, Mapping):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"no JSON value: {value!r}")
