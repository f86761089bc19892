"""What is asked for by ``--quality``: how a chunk becomes a state, from cheap to dear. Needs no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from precog.errors import UsageError

FAST, TWICE, STUDY = QUALITIES = ("fast", "twice", "study")
ENCODE_MODES = ("once", "twice", "twice-reversed")
DEFAULT_STEPS = 0
"""Gradient steps of a state where nobody says: none, they have to be asked for."""
CPU_SECONDS = 30.0
"""What the steps of a chunk may take on a CPU where nobody says; elsewhere their number alone is the limit."""
_READ = {FAST: "once", TWICE: "twice", STUDY: "once"}
"""How a chunk is read where nobody says."""


def encode_mode_for(quality: str | None, encode_mode: str | None) -> str | None:
    """How chunks are read, of what was asked for; None where neither was.

    Raises:
        UsageError: there is no such quality or way of reading, or one contradicts the other.
    """
    if quality is not None and quality not in QUALITIES:
        raise UsageError("--quality: no such quality", given=quality, expected=", ".join(QUALITIES))
    if encode_mode is not None and encode_mode not in ENCODE_MODES:
        raise UsageError("--encode: no such way of reading", given=encode_mode, expected=", ".join(ENCODE_MODES))
    if quality is None or encode_mode is None:
        return encode_mode if quality is None else _READ[quality]
    if quality != STUDY and quality != quality_of(encode_mode):
        raise UsageError(
            f"--quality {quality} and --encode {encode_mode} contradict each other",
            expected=f"--encode {_READ[quality]}",
            hint="leave --encode out",
        )
    return encode_mode


def quality_of(encode_mode: str) -> str:
    """What the states of chunks that are read like this, and not studied, count as."""
    return FAST if encode_mode == "once" else TWICE


@dataclass(frozen=True)
class StudyLimits:
    """How long a state is studied.

    Attributes:
        steps: most gradient steps; None for the usual number, 0 for none at all.
        seconds: for each chunk; None for the usual time of the device.

    Raises:
        UsageError: one is out of range.
    """

    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise UsageError("--study-steps is out of range", given=self.steps, expected="0 or more")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise UsageError("--study-seconds is out of range", given=self.seconds, expected="seconds, above 0")

    @classmethod
    def of(cls, wanted: Mapping[str, object], quality: str, own_steps: int = DEFAULT_STEPS) -> "StudyLimits":
        """Those among what was asked for by name, ``study_steps`` and ``study_seconds``.

        Args:
            wanted: what was asked for.
            quality: that it is asked for.
            own_steps: gradient steps where none are asked for.

        Raises:
            UsageError: one is out of range, nothing is studied, or there is a time for no steps.
        """
        steps, seconds = wanted.get("study_steps"), wanted.get("study_seconds")
        assert steps is None or isinstance(steps, int)
        assert seconds is None or isinstance(seconds, int | float)
        limits = cls(steps, None if seconds is None else float(seconds))
        if quality != STUDY and limits != cls():
            name = "--study-steps" if steps is not None else "--study-seconds"
            raise UsageError(f"{name} needs --quality {STUDY}", given=f"--quality {quality}")
        if limits.seconds is not None and not (own_steps if limits.steps is None else limits.steps):
            raise UsageError("--study-seconds needs --study-steps", given="no gradient steps", hint="--study-steps 8")
        return limits

    def on(self, device: str) -> "StudyLimits":
        """With what is usual on a device, ``cpu`` or another, where nothing was said; ``seconds`` may stay None."""
        steps = DEFAULT_STEPS if self.steps is None else self.steps
        if not steps:
            return StudyLimits(steps)
        usual = CPU_SECONDS if device == "cpu" else None
        return StudyLimits(steps, usual if self.seconds is None else self.seconds)
