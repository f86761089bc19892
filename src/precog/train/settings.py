"""The settings of a training run: frozen, strict, saved beside the checkpoint."""

import dataclasses
import math
from typing import Any, Literal, cast, get_args

from precog.errors import TrainingError
from precog.train.questions import Variation

RECORDED_ANSWER_TOKENS = 6
"""Answer tokens a row, on average, that a recording has room for; an end token is one."""
SHARES = (
    "context_share",
    "unanswerable",
    "twice",
    "augment_rounded",
    "augment_layers",
    "augment_composed",
)
WEIGHTS = (
    "context_weight",
    "context_weight_final",
    "question_weight",
    "answer_weight",
    "grounded_weight",
    "recite_weight",
)
EVERY = ("save_every_steps", "evaluate_every_steps", "log_every_steps")
COUNTS = {
    "steps": 99_999_999,
    "batch_chunks": 1 << 16,
    "questions_per_chunk": 1 << 12,
    "stream_rows": 1 << 16,
    "stream_tokens": 1 << 20,
    "accumulate": 1 << 12,
}
"""At least 1, and at most what a checkpoint's name has room for, and more than any machine."""
MAX_ROWS, MAX_STREAM = 1 << 20, 1 << 26
"""Question rows, and stream tokens, of a micro-batch."""
MAX_COUNT = (1 << 31) - 1
MAX_SEED = (1 << 63) - 1


def _check_range(name: str, value: object, is_inside: bool, expected: str) -> None:
    if not is_inside:
        raise TrainingError(f"training setting {name} is out of range", given=f"{value!s:.40}", expected=expected)


def _of_kind(name: str, value: object, kind: object) -> Any:
    """The value where it is of a setting's kind; a whole number where a real one is wanted becomes one."""
    choices = get_args(kind)
    if choices:
        is_right, expected = type(value) is str and value in choices, ", ".join(map(str, choices))
    else:
        allowed = (int, float) if kind is float else (kind,)  # a truth value is neither
        is_right, expected = type(value) in allowed, getattr(kind, "__name__", str(kind))
    if not is_right:
        raise TrainingError(f"training setting {name} has no such value", given=f"{value!r:.80}", expected=expected)
    if kind is not float:
        return value
    try:
        return float(cast(float, value))
    except OverflowError as error:
        short = f"{value!s:.40}…"
        raise TrainingError(f"training setting {name} is out of range", given=short, expected="below 1e308") from error


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How a run trains.

    Attributes:
        steps: optimiser steps; the schedule's length.
        minutes: wall-clock limit that shortens the schedule, 0 for none. A run limited by time is not reproducible
            step by step; one limited by steps is.
        batch_chunks: chunks per device and step.
        questions_per_chunk: questions branched from each chunk's state.
        stream_rows, stream_tokens: windows per device, and tokens of a window, where a step reads token streams.
        accumulate: micro-batches per step; each has the sizes above.
        recompute: blocks are computed again in the backward pass instead of kept: less memory, a third more time.
        parallel: how several processes share the model: ``ddp`` (copies), ``fsdp`` (shards; AdamW only), or ``auto``:
            shards for a large model.
        optimiser: ``muon`` or ``adamw``.
        lr: peak learning rate.
        embedding_lr_scale: factor on it for the embeddings.
        warmup_steps: linear warm-up.
        schedule: ``cosine``, or ``wsd``: the peak is kept and falls linearly over the last ``decay_fraction``.
        final_lr_fraction: the schedule ends at this fraction of the peak.
        decay_fraction: share of the run over which ``wsd`` falls.
        ema: decay of an average of the weights, which is evaluated and exported in their place; 0 for none.
        dropout: share of what a block adds to the residual stream that is dropped in training: against learning by
            heart where questions are seen many times.
        weight_decay, clip: decoupled decay; gradient norm limit.
        context_weight, question_weight, answer_weight, grounded_weight: parts of the loss.
        context_weight_final: the context weight moves there over the second half of the schedule.
        recite_weight: part of the loss for chunks read a second time.
        context_share: share of the chunks whose own tokens are scored in a step.
        unanswerable: share of question rows that start from another chunk's state.
        twice: share of the chunks that are read twice.
        augment_rounded, augment_layers, augment_composed: shares of question rows that start from a state rounded to
            16, 8 or 4 bits, from some of its layers, or from a composition with another chunk's state.
        recorded: forward and backward pass of question batches are recorded as a CUDA graph and replayed, which spares
            a small model the time its kernels take to be launched.
        seed: of the weights and the data order.
        save_every_steps, evaluate_every_steps, log_every_steps: 0 for never.
        dtype: compute dtype of the blocks; weights, state and optimiser stay FP32.
    """

    steps: int = 1000
    minutes: float = 0.0
    batch_chunks: int = 8
    questions_per_chunk: int = 8
    stream_rows: int = 8
    stream_tokens: int = 1024
    accumulate: int = 1
    recompute: bool = False
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    optimiser: Literal["muon", "adamw"] = "muon"
    lr: float = 1.5e-3
    embedding_lr_scale: float = 1.0
    warmup_steps: int = 100
    schedule: Literal["cosine", "wsd"] = "cosine"
    final_lr_fraction: float = 0.1
    decay_fraction: float = 0.2
    ema: float = 0.0
    dropout: float = 0.0
    weight_decay: float = 0.1
    clip: float = 1.0
    context_weight: float = 1.0
    context_weight_final: float = 1.0
    question_weight: float = 0.1
    answer_weight: float = 0.5
    grounded_weight: float = 1.0
    recite_weight: float = 0.0
    context_share: float = 1.0
    unanswerable: float = 0.1
    twice: float = 0.0
    augment_rounded: float = 0.0
    augment_layers: float = 0.0
    augment_composed: float = 0.0
    recorded: bool = False
    seed: int = 0
    save_every_steps: int = 0
    evaluate_every_steps: int = 0
    log_every_steps: int = 10
    dtype: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        for name, most in COUNTS.items():
            _check_range(name, getattr(self, name), 1 <= getattr(self, name) <= most, f"1 to {most}")
        rows, tokens = self.batch_chunks * self.questions_per_chunk, self.stream_rows * self.stream_tokens
        _check_range("batch_chunks × questions_per_chunk", rows, rows <= MAX_ROWS, f"at most {MAX_ROWS}")
        _check_range("stream_rows × stream_tokens", tokens, tokens <= MAX_STREAM, f"at most {MAX_STREAM}")
        for name in ("warmup_steps", *EVERY):
            _check_range(name, getattr(self, name), 0 <= getattr(self, name) <= MAX_COUNT, f"0 to {MAX_COUNT}")
        _check_range("seed", self.seed, 0 <= self.seed <= MAX_SEED, f"0 to {MAX_SEED}")
        for name in ("lr", "clip", "embedding_lr_scale", "decay_fraction"):
            _check_range(name, getattr(self, name), 0 < getattr(self, name) < math.inf, "above 0")
        for name in ("minutes", "weight_decay", *WEIGHTS):
            _check_range(name, getattr(self, name), 0 <= getattr(self, name) < math.inf, "at least 0")
        for name in (*SHARES, "final_lr_fraction", "decay_fraction"):
            _check_range(name, getattr(self, name), 0 <= getattr(self, name) <= 1, "0 to 1")
        _check_range("ema", self.ema, 0 <= self.ema < 1, "0 ≤ decay < 1")
        _check_range("dropout", self.dropout, 0 <= self.dropout < 1, "0 ≤ share < 1")

    def variation(self, num_layers: int) -> Variation:
        """How batches of questions are varied."""
        return Variation(
            unanswerable=self.unanswerable,
            twice=self.twice,
            rounded=self.augment_rounded,
            layers=self.augment_layers,
            composed=self.augment_composed,
            num_layers=num_layers,
            answer_tokens_per_row=RECORDED_ANSWER_TOKENS if self.recorded else 0,
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainSettings":
        """Settings from plain data.

        Raises:
            TrainingError: a key is unknown, or a value of another kind or out of range.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - set(fields))
        if unknown:
            raise TrainingError(
                "training settings: unknown keys", given=", ".join(unknown), expected=", ".join(sorted(fields))
            )
        return cls(**{name: _of_kind(name, value, fields[name].type) for name, value in values.items()})
