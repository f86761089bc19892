"""What a run says that was asked to stop."""

from pathlib import Path

from precog.errors import TrainingError


class TrainingInterrupted(TrainingError):
    """The run was asked to stop; its checkpoint is complete and the same command goes on from it."""

    code = "interrupted"
    exit_status = 130

    def __init__(self, step: int, checkpoint: Path | None) -> None:
        super().__init__(
            f"interrupted after step {step}" + ("" if checkpoint is None else f", saved in {checkpoint}"),
            hint="run the same command again to go on from there",
        )
