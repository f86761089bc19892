"""What became of states that were studied, counted."""

from dataclasses import dataclass, field


@dataclass
class StudyTally:
    """Counts.

    Attributes:
        studied: states that were studied.
        refined: those that are better for it.
        kept: those that stayed as they were read, by the reason.
        steps: gradient steps of all of them.
        seconds: that all of them took.
    """

    studied: int = 0
    refined: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0

    def add(self, refined: bool, reason: str, steps: int, seconds: float) -> None:
        """Counts one; ``reason`` says why it stayed as it was read."""
        self.studied += 1
        self.refined += refined
        self.steps += steps
        self.seconds += seconds
        if not refined:
            self.kept[reason] = self.kept.get(reason, 0) + 1

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        return {
            "studied": self.studied,
            "refined": self.refined,
            "kept_as_read": self.kept,
            "study_steps": self.steps,
            "study_sec": round(self.seconds, 3),
        }
