"""A folder of prepared data, opened for a run: sets and streams to train on, others held out, and their mixture."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precog.errors import TrainingError
from precog.train.data.rows import PreparedSet
from precog.train.data.shards import TokenStream
from precog.train.mixture import Phase, PhasedBatches, prepared_sets, prepared_streams, read_phases
from precog.train.settings import TrainSettings

LOOKED_AT = 1 << 24
"""Ids of an array that are compared with the vocabulary: all of most arrays, evenly spread blocks of the largest."""


@dataclass(frozen=True)
class TrainingData:
    """What a run reads.

    Attributes:
        sets, streams: to train on, by name.
        held_out_sets, held_out_streams: never trained on.
        phases: shares of sets and streams.
    """

    sets: Mapping[str, PreparedSet]
    streams: Mapping[str, TokenStream]
    held_out_sets: Mapping[str, PreparedSet]
    held_out_streams: Mapping[str, TokenStream]
    phases: tuple[Phase, ...]

    def check_vocabulary(self, vocabulary: int) -> None:
        """Compare ids with a model's vocabulary.

        Raises:
            TrainingError: an id is not below it.
        """
        named: list[tuple[str, NDArray[np.generic]]] = []
        for sets in (self.sets, self.held_out_sets):
            for rows in sets.values():
                named += [(f"{rows.folder}/{name}.npy", rows.columns[name]) for name in ("context", "questions")]
        for streams in (self.streams, self.held_out_streams):
            for stream in streams.values():
                named += [(f"{stream.folder}, shard {i}", shard.tokens) for i, shard in enumerate(stream.shards)]
        for name, ids in named:
            if (highest := highest_id(ids)) >= vocabulary:
                raise TrainingError(
                    "the data was made with another vocabulary",
                    given=f"token id {highest} in {name}",
                    expected=f"ids below {vocabulary}",
                    hint="prepare it again with this model's tokenizer",
                )

    def fingerprint(self) -> str:
        """Hex SHA-256 of what is trained on and in which shares, wherever the folder lies."""
        digest = hashlib.sha256(json.dumps([asdict(phase) for phase in self.phases], sort_keys=True).encode())
        for kind in (self.sets, self.streams):
            for name in sorted(kind):
                meta = json.loads((kind[name].folder / "meta.json").read_text(encoding="utf-8"))
                meta.pop("notes", None)  # shapes and checksums say all
                digest.update(f"|{name}|{json.dumps(meta, sort_keys=True)}".encode())
        return digest.hexdigest()

    def batches(self, settings: TrainSettings, rank: int = 0, world: int = 1) -> PhasedBatches:
        """Micro-batches of a process, by number.

        Raises:
            TrainingError: sets whose rows have other widths, or a stream without a full window.
        """
        return PhasedBatches(
            self.sets,
            self.phases,
            settings.steps * settings.accumulate,
            settings.batch_chunks,
            settings.questions_per_chunk,
            seed=settings.seed,
            rank=rank,
            world=world,
            streams=self.streams,
            num_rows=settings.stream_rows,
            num_tokens=settings.stream_tokens,
        )


def open_data(folder: Path, mixture: Path | None = None) -> TrainingData:
    """Open ``train/``, ``val/``, ``stream/train/`` and ``stream/val/`` of a folder.

    Raises:
        TrainingError: there is nothing to train on, or something in it is damaged or of another tokenizer.
    """
    streams = prepared_streams(folder / "stream" / "train")
    sets = _sets(folder / "train") if streams else prepared_sets(folder / "train")
    return TrainingData(
        sets,
        streams,
        _sets(folder / "val"),
        prepared_streams(folder / "stream" / "val"),
        read_phases(mixture, sets, streams),
    )


def _sets(folder: Path) -> dict[str, PreparedSet]:
    return prepared_sets(folder) if any(folder.glob("*/meta.json")) else {}


def highest_id(ids: NDArray[Any], looked_at: int = LOOKED_AT) -> int:
    """The highest of an array's ids; where there are more than ``looked_at``, of 64 evenly spread blocks."""
    flat = ids.reshape(-1)
    if not len(flat):
        return 0
    if len(flat) <= looked_at:
        return int(flat.max())
    size = looked_at // 64
    starts = np.linspace(0, len(flat) - size, 64).astype(np.int64)
    return max(int(flat[at : at + size].max()) for at in starts)
