"""What a run reads, and when: shares of prepared sets, in phases of the schedule, from one JSON file.

``{"phases": [{"until": 0.8, "shares": {"wikipop": 80, "squad": 2}}, {"until": 1.0, "shares": {…}}]}``: ``until`` is a
fraction of the steps; shares are relative. Without a file every prepared set has a share proportional to its chunks.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from precog.errors import TrainingError
from precog.train.data.batches import Batch, MixtureEntry, QuestionBatches
from precog.train.data.rows import PreparedSet

__all__ = ["Phase", "PhasedBatches", "prepared_sets", "read_phases"]


@dataclass(frozen=True)
class Phase:
    """Relative shares of the prepared sets, up to a fraction of the steps."""

    until: float
    shares: dict[str, float]


def prepared_sets(folder: Path) -> dict[str, PreparedSet]:
    """Every prepared set below a folder, by name.

    Raises:
        TrainingError: there is none.
    """
    found = {path.parent.name: PreparedSet(path.parent) for path in sorted(folder.glob("*/meta.json"))}
    if not found:
        raise TrainingError(
            "no training data",
            given=str(folder),
            expected="a folder of prepared sets",
            hint="prepare texts with: python -m precog.train.data.prepare --text FILES… --out DIR",
        )
    return found


def read_phases(path: Path | None, sets: dict[str, PreparedSet]) -> tuple[Phase, ...]:
    """The phases of a mixture file, checked against the prepared sets.

    Raises:
        TrainingError: the file is malformed, or names a set that was not prepared.
    """
    if path is None:
        return (Phase(1.0, {name: float(len(rows.columns["context_len"])) for name, rows in sets.items()}),)
    try:
        data = json.loads(path.read_text("utf-8"))
        phases = tuple(
            Phase(float(entry["until"]), {str(k): float(v) for k, v in entry["shares"].items()})
            for entry in data["phases"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrainingError(
            "the mixture file cannot be read",
            given=f"{path}: {error}",
            expected='{"phases": [{"until": 1.0, "shares": {"NAME": 1}}]}',
        ) from error
    ends = [phase.until for phase in phases]
    if not ends or ends != sorted(ends) or ends[-1] != 1.0:
        raise TrainingError("the mixture's phases do not end in order", given=ends, expected="rising, the last 1.0")
    unknown = sorted({name for phase in phases for name in phase.shares} - set(sets))
    if unknown:
        raise TrainingError(
            "the mixture names sets that were not prepared", given=", ".join(unknown), expected=", ".join(sorted(sets))
        )
    return phases


class PhasedBatches:
    """Batches whose shares change with the phase of the schedule; a function of the step alone."""

    def __init__(
        self,
        sets: dict[str, PreparedSet],
        phases: tuple[Phase, ...],
        steps: int,
        num_chunks: int,
        num_questions: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self._last_step = [phase.until * steps for phase in phases]
        self._sources = [
            QuestionBatches(
                [MixtureEntry(sets[name], share) for name, share in phase.shares.items() if share > 0],
                num_chunks,
                num_questions,
                seed=seed + number,
                rank=rank,
                world=world,
            )
            for number, phase in enumerate(phases)
        ]

    def batch(self, step: int) -> Batch:
        """The batch of a step, from the phase that the step belongs to."""
        for end, source in zip(self._last_step, self._sources, strict=True):
            if step < end:
                return source.batch(step)
        return self._sources[-1].batch(step)
