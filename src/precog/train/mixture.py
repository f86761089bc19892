"""What a run reads, and when: shares of prepared sets and token streams in phases of the schedule, from one JSON file.

::

    {"phases": [
        {"until": 0.8, "sets": {"wikipop": 80, "squad": 4}, "streams": {"wikipop": 16}},
        {"until": 1.0, "sets": {"wikipop": 60, "squad": 30, "dialogue": 10}}
    ]}

=============  ======================================================================================================
``until``      the phase's end as a fraction of the steps: above 0, rising, the last 1.0
``sets``       prepared sets (folders of ``DATA/train``) and their shares, each above 0; optional
``streams``    token streams (folders of ``DATA/stream/train``) and their shares, each above 0; optional
=============  ======================================================================================================

Shares are relative within a phase, sets and streams together: streams worth 16 of 100 make 16 of 100 steps
language-model steps (a :class:`TokenBatch`), spread evenly; the other steps are question steps (a :class:`Batch`),
their chunks drawn from the sets by share. Which of the two a step is depends on the seed and the step alone, so that
every process agrees. A run that ``minutes`` end before its steps does not see its later phases: batches are drawn
ahead, by number alone, which no clock changes. A phase names at least one set or stream. Nothing else may stand in the
file. Without a file there is one phase: every set with a share proportional to its chunks, and no stream; or, where no
set was prepared, every stream.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from precog.errors import TrainingError
from precog.train.data.batches import Batch, MixtureEntry, PackedTokens, QuestionBatches, TokenBatch
from precog.train.data.rows import PreparedSet
from precog.train.data.shards import TokenStream

__all__ = ["Phase", "PhasedBatches", "prepared_sets", "prepared_streams", "read_phases"]

_LARGEST_SHARE = 1e15
_LARGEST_STEPS = 10**12
_FORM = '{"phases": [{"until": 1.0, "sets": {"NAME": 1}, "streams": {"NAME": 1}}]}'


@dataclass(frozen=True)
class Phase:
    """Relative shares of prepared sets and token streams, up to a fraction of the steps."""

    until: float
    sets: dict[str, float] = field(default_factory=dict)
    streams: dict[str, float] = field(default_factory=dict)

    @property
    def stream_share(self) -> float:
        """Share of the phase's steps that are language-model steps."""
        streams = sum(self.streams.values())
        return streams / (streams + sum(self.sets.values()))


def prepared_sets(folder: Path, *, verify: bool = True) -> dict[str, PreparedSet]:
    """Every prepared set below a folder, by name; ``verify`` compares them with their checksums.

    Raises:
        TrainingError: there is none, or one is damaged.
    """
    found = {path.parent.name: PreparedSet(path.parent, verify=verify) for path in sorted(folder.glob("*/meta.json"))}
    if not found:
        raise TrainingError(
            "no training data",
            given=folder,
            expected="a folder of prepared sets",
            hint="prepare texts with: precog train-data FILES… --out DIR",
        )
    return found


def prepared_streams(folder: Path, *, verify: bool = True) -> dict[str, TokenStream]:
    """Every token stream below a folder, by name; none is no error."""
    return {path.parent.name: TokenStream(path.parent, verify=verify) for path in sorted(folder.glob("*/meta.json"))}


def read_phases(
    path: Path | None, sets: Mapping[str, PreparedSet], streams: Mapping[str, TokenStream] | None = None
) -> tuple[Phase, ...]:
    """The phases of a mixture file, checked against what was prepared.

    Raises:
        TrainingError: the file is malformed, or names a set or stream that was not prepared.
    """
    streams = streams or {}
    if path is None:
        if sets:
            return (Phase(1.0, {name: float(len(rows)) for name, rows in sets.items()}),)
        return (Phase(1.0, {}, {name: float(stream.num_tokens) for name, stream in streams.items()}),)
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TrainingError("the mixture file cannot be read", given=f"{path}: {error}", expected=_FORM) from error
    if not isinstance(data, dict) or set(data) != {"phases"} or not isinstance(data["phases"], list):
        raise _malformed(path, data, _FORM)
    phases = tuple(_phase(path, entry) for entry in data["phases"])
    ends = [phase.until for phase in phases]
    if not ends or ends[0] <= 0 or ends != sorted(set(ends)) or ends[-1] != 1.0:
        raise TrainingError("the mixture's phases do not end in order", given=ends, expected="rising, the last 1.0")
    for kind, known in (("sets", set(sets)), ("streams", set(streams))):
        unknown = sorted({name for phase in phases for name in getattr(phase, kind)} - known)
        if unknown:
            raise TrainingError(
                f"the mixture names {kind} that were not prepared",
                given=", ".join(unknown),
                expected=", ".join(sorted(known)) or f"no {kind}: none was prepared",
            )
    return phases


def _phase(path: Path, entry: object) -> Phase:
    if not isinstance(entry, dict) or not {"until"} <= set(entry) <= {"until", "sets", "streams"}:
        raise _malformed(path, entry, "until, and sets or streams")
    until = entry["until"]
    if not _is_number(until):
        raise _malformed(path, until, "until: a fraction of the steps")
    shares: list[dict[str, float]] = []
    for key in ("sets", "streams"):
        given = entry.get(key, {})
        if not isinstance(given, dict) or not all(_is_number(share) and share > 0 for share in given.values()):
            raise _malformed(path, given, f"{key}: names with shares above 0, at most {_LARGEST_SHARE:.0e}")
        shares.append({str(name): float(share) for name, share in given.items()})
    if not any(shares):
        raise _malformed(path, entry, "at least one set or stream in every phase")
    return Phase(float(until), *shares)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_SHARE


def _malformed(path: Path, given: object, expected: str) -> TrainingError:
    return TrainingError("the mixture file is malformed", given=f"{path}: {json.dumps(given)[:120]}", expected=expected)


class PhasedBatches:
    """Batches whose kind and shares change with the phase of the schedule; a function of the step alone.

    Args:
        sets: prepared sets by name.
        phases: see :func:`read_phases`.
        steps: steps of the schedule.
        num_chunks: chunks of a question batch, per process.
        num_questions: rows per chunk.
        seed: source of every choice.
        rank: this process's number.
        world: number of processes.
        streams: token streams by name.
        num_rows: windows of a language-model batch, per process.
        num_tokens: T; windows hold T + 1 tokens.

    Raises:
        TrainingError: sets whose rows have other widths, a stream without a full window, or steps beyond counting.
    """

    def __init__(
        self,
        sets: Mapping[str, PreparedSet],
        phases: tuple[Phase, ...],
        steps: int,
        num_chunks: int,
        num_questions: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        streams: Mapping[str, TokenStream] | None = None,
        num_rows: int = 1,
        num_tokens: int = 1024,
    ) -> None:
        if not 1 <= steps <= _LARGEST_STEPS:
            raise TrainingError("steps are out of range", given=steps, expected=f"1 ≤ steps ≤ {_LARGEST_STEPS}")
        self._phases = phases
        self._ends = [math.ceil(phase.until * steps) for phase in phases]
        self._seed = seed
        self._questions: list[QuestionBatches | None] = []
        self._tokens: list[PackedTokens | None] = []
        for number, phase in enumerate(phases):
            entries = [MixtureEntry(sets[name], share) for name, share in phase.sets.items()]
            self._questions.append(
                QuestionBatches(entries, num_chunks, num_questions, seed=seed + number, rank=rank, world=world)
                if entries
                else None
            )
            self._tokens.append(
                PackedTokens(
                    [(streams or {})[name] for name in phase.streams],
                    num_rows,
                    num_tokens,
                    shares=list(phase.streams.values()),
                    seed=seed + number,
                    rank=rank,
                    world=world,
                )
                if phase.streams
                else None
            )

    def batch(self, step: int) -> Batch | TokenBatch:
        """The batch of a step, from the phase that the step belongs to: questions, or tokens of a stream."""
        part, number = self._part(step)
        return part.batch(number)

    def describe(self, step: int) -> list[str]:
        """Where the rows of a step's batch come from, for a person."""
        part, number = self._part(step)
        return part.describe(number)

    def _part(self, step: int) -> tuple[QuestionBatches | PackedTokens, int]:
        """Which batches a step reads, and its number among those."""
        number = next((i for i, end in enumerate(self._ends) if step < end), len(self._ends) - 1)
        begin = self._ends[number - 1] if number else 0
        share = self._phases[number].stream_share
        offset = float(np.random.default_rng((self._seed, number, 13)).random())
        # exactly `share` of the steps, evenly spread, and each kind's own steps numbered without a gap
        before, after = (math.floor((step - begin + i) * share + offset) for i in (0, 1))
        tokens, questions = self._tokens[number], self._questions[number]
        if tokens is not None and (after > before or questions is None):
            return tokens, before
        assert questions is not None
        return questions, step - begin - before
