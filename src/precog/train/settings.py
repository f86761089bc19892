"""The settings of a training run: frozen, strict, saved beside the checkpoint."""

import dataclasses
from typing import Any, Literal

from precog.errors import TrainingError


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How a run trains.

    Attributes:
        steps: optimiser steps; the schedule's length.
        minutes: wall-clock limit that shortens the schedule, 0 for none. A run limited by time is not reproducible
            step by step; one limited by steps is.
        batch_chunks: chunks per device and step.
        questions_per_chunk: questions branched from each chunk's state.
        optimiser: ``muon`` or ``adamw``.
        lr: peak learning rate.
        embedding_lr_scale: factor on it for the embeddings.
        warmup_steps: linear warm-up.
        final_lr_fraction: the cosine ends at this fraction of the peak.
        weight_decay, clip: decoupled decay; gradient norm limit.
        context_weight, question_weight, answer_weight, grounded_weight: parts of the loss.
        context_weight_final: the context weight moves there over the second half of the schedule.
        unanswerable: share of question rows that start from another chunk's state.
        seed: of the weights and the data order.
        save_every_steps, evaluate_every_steps, log_every_steps: 0 for never.
        dtype: compute dtype of the blocks; weights, state and optimiser stay FP32.
    """

    steps: int = 1000
    minutes: float = 0.0
    batch_chunks: int = 8
    questions_per_chunk: int = 8
    optimiser: Literal["muon", "adamw"] = "muon"
    lr: float = 1.5e-3
    embedding_lr_scale: float = 1.0
    warmup_steps: int = 100
    final_lr_fraction: float = 0.1
    weight_decay: float = 0.1
    clip: float = 1.0
    context_weight: float = 1.0
    context_weight_final: float = 1.0
    question_weight: float = 0.1
    answer_weight: float = 0.5
    grounded_weight: float = 1.0
    unanswerable: float = 0.1
    seed: int = 0
    save_every_steps: int = 0
    evaluate_every_steps: int = 0
    log_every_steps: int = 10
    dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for name in ("steps", "batch_chunks", "questions_per_chunk"):
            if getattr(self, name) < 1:
                raise TrainingError(
                    f"--{name.replace('_', '-')} is out of range", given=getattr(self, name), expected="at least 1"
                )
        for name in ("lr", "clip"):
            if not getattr(self, name) > 0:
                raise TrainingError(f"--{name} is out of range", given=getattr(self, name), expected="above 0")
        if not 0 <= self.unanswerable < 1:
            raise TrainingError("--unanswerable is out of range", given=self.unanswerable, expected="0 ≤ share < 1")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainSettings":
        """Settings from plain data; an unknown key raises TrainingError."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise TrainingError(
                "training settings: unknown keys", given=", ".join(unknown), expected=", ".join(sorted(known))
            )
        return cls(**values)
