"""What a scheduler counts, for whoever watches it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SchedulerCounts:
    """How things stand, and what has been done since the start.

    Attributes:
        active: requests that the model works on now.
        waiting: answers whose turn has not come.
        refused: askers that were told to come later.
        cancelled: requests that were dropped because the asker had gone.
        tokens_read: of texts and questions.
        tokens_generated: of answers.
    """

    active: int = 0
    waiting: int = 0
    refused: int = 0
    cancelled: int = 0
    tokens_read: int = 0
    tokens_generated: int = 0
