"""What a run has found, as the sections of its report see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precog.bench.result import Subject
from precog.evaluate.paper.report import Section
from precog.figures import Picture as Figure

__all__ = ["Drawing", "Findings", "Written"]


@dataclass(frozen=True)
class Findings:
    """What was measured.

    Attributes:
        reports: experiment ▸ its JSON object; only those that were run.
        subject: the model.
        quick: whether sizes were small.
        origins: experiment ▸ machine, commit, processes and time of its records.
    """

    reports: Mapping[str, Mapping[str, Any]]
    subject: Subject
    quick: bool
    origins: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn.

    Attributes:
        name: of its files, without suffix.
        picture: its numbers.
    """

    name: str
    picture: Figure


@dataclass(frozen=True)
class Written:
    """A section with the figures it shows."""

    section: Section
    drawings: tuple[Drawing, ...] = ()
