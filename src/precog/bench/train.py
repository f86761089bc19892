"""How fast the model learns: tokens per second of the training loop itself, against the device's matrix products.

And so how long a run of so many tokens takes on this machine.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.bench.ceilings import measure_ceilings
from precog.bench.harness import Samples
from precog.bench.machine import Machine
from precog.bench.model import RANDOM, state_spec
from precog.bench.result import Result, Subject
from precog.bench.sizes import check_sizes
from precog.errors import UsageError
from precog.state import codec_named
from precog.train.data.batches import Batch, TokenBatch
from precog.train.loop import Run
from precog.train.settings import TrainSettings
from precog.train.speed import body_parameters

BOUNDARY_ID, EOS_ID, FIRST_ID = 1, 2, 3


@dataclass(frozen=True)
class TrainBench:
    """Sizes of the measurement.

    Attributes:
        objective: ``tokens`` reads windows of documents; ``questions`` reads chunks and their questions.
        rows: windows, or chunks, of a micro-batch.
        tokens: of a window, or of a chunk.
        questions: rows asked of a chunk.
        question_tokens: of such a row.
        accumulate: micro-batches per step.
        optimiser: ``adamw`` or ``muon``.
        recompute: blocks are computed again in the backward pass.
        repeats: steps that count.
        warm_up: steps that do not.
        total_tokens: of the run whose time is estimated.
    """

    objective: Literal["tokens", "questions"] = "tokens"
    rows: int = 8
    tokens: int = 1024
    questions: int = 8
    question_tokens: int = 48
    accumulate: int = 1
    optimiser: Literal["adamw", "muon"] = "adamw"
    recompute: bool = False
    repeats: int = 10
    warm_up: int = 3
    total_tokens: int = 1_000_000_000

    def __post_init__(self) -> None:
        sizes = {"--rows": self.rows, "--steps": self.repeats, "--total-tokens": self.total_tokens}
        check_sizes(
            "train", {**sizes, "questions": self.questions, "accumulate": self.accumulate, "warm_up": self.warm_up}
        )
        check_sizes("train", {"--tokens": self.tokens, "question_tokens": self.question_tokens}, least=4)


QUICK = TrainBench(rows=2, tokens=32, questions=2, question_tokens=8, repeats=2, warm_up=1)
ON_CPU = TrainBench(rows=2, tokens=256, repeats=3, warm_up=1)
"""Well under a minute with ``base``; the sizes of a GPU take a processor a quarter of an hour."""


def _suited(device: torch.device) -> TrainBench:
    return TrainBench() if device.type == "cuda" else ON_CPU


def sized(device: torch.device, *, quick: bool, objective: str, optimiser: str, **sizes: Any) -> TrainBench:
    """Sizes from a command line, where None leaves one to the device; those of a quick run are its own.

    Raises:
        UsageError: a value is out of range.
    """
    if objective not in ("tokens", "questions"):
        raise UsageError("--objective is unknown", given=objective, expected="tokens or questions")
    if optimiser not in ("adamw", "muon"):
        raise UsageError("--optimiser is unknown", given=optimiser, expected="adamw or muon")
    kinds: dict[str, Any] = {"objective": objective, "optimiser": optimiser}
    given = {name: size for name, size in sizes.items() if size is not None}
    wanted = replace(_suited(device), **kinds, **given)
    return replace(QUICK, **kinds, total_tokens=wanted.total_tokens) if quick else wanted


class _Tokens:
    """Documents of random length, 400 tokens on average, in segments of 250."""

    def __init__(self, sizes: TrainBench, vocabulary: int) -> None:
        self._sizes, self._vocabulary = sizes, vocabulary

    def batch(self, step: int) -> TokenBatch:
        """Windows."""
        rng = np.random.default_rng(step)
        shape = (self._sizes.rows, self._sizes.tokens + 1)
        tokens = rng.integers(FIRST_ID, self._vocabulary, shape).astype(np.int32)
        reset = rng.random(shape) < 1 / 400
        tokens[reset | (rng.random(shape) < 1 / 250)] = BOUNDARY_ID
        return {"tokens": tokens, "reset": reset}


class _Questions:
    """Chunks of full length and questions whose answers are two tokens of them."""

    def __init__(self, sizes: TrainBench, vocabulary: int) -> None:
        self._sizes, self._vocabulary = sizes, vocabulary

    def batch(self, step: int) -> Batch:
        """Chunks and rows."""
        rng, sizes = np.random.default_rng(step), self._sizes
        count, width = sizes.rows * sizes.questions, sizes.question_tokens
        context = rng.integers(FIRST_ID, self._vocabulary, (sizes.rows, sizes.tokens)).astype(np.int32)
        context[:, 0] = BOUNDARY_ID
        owner = np.repeat(np.arange(sizes.rows), sizes.questions)
        questions = rng.integers(FIRST_ID, self._vocabulary, (count, width)).astype(np.int32)
        start = rng.integers(1, sizes.tokens - 2, count)
        questions[:, 0], questions[:, -1] = BOUNDARY_ID, EOS_ID
        questions[:, -3], questions[:, -2] = context[owner, start], context[owner, start + 1]
        full = np.full(count, width, np.int32)
        return {
            "context": context,
            "context_len": np.full(sizes.rows, sizes.tokens, np.int32),
            "questions": questions,
            "prompt_len": full - 3,
            "row_len": full,
            "answer_start": start.astype(np.int32),
            "owner": owner,
            "kind": np.zeros(count, np.uint8),
            "valid": np.ones(count, np.bool_),
            "source": np.zeros(sizes.rows, np.int64),
        }


def bench_train(
    preset: str,
    device: torch.device,
    sizes: TrainBench | None = None,
    *,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
    on_progress: Callable[[int, int, dict[str, Any]], None] = lambda done, total, metrics: None,
) -> Result:
    """Measures steps of the training loop on made-up batches, in BF16 on a GPU and in FP32 elsewhere.

    Args:
        preset: shape of the model.
        device: where to train.
        sizes: those that suit the device when None.
        quick: whether the result is marked as measuring nothing.
        say: told what is being done.
        on_progress: called after every step with steps done, steps in all, and its metrics.

    Raises:
        ModelError: there is no such preset.
        UsageError: sizes are out of range.
    """
    sizes = sizes or _suited(device)
    machine = Machine.here()
    config = TennsConfig.preset(preset)
    on_gpu = device.type == "cuda"
    dtype: Literal["bfloat16", "float32"] = "bfloat16" if on_gpu else "float32"
    say("the machine's limits")
    ceilings = measure_ceilings(device, dtype, quick=quick)
    settings = TrainSettings(
        steps=sizes.warm_up + sizes.repeats,
        batch_chunks=sizes.rows,
        questions_per_chunk=sizes.questions,
        stream_rows=sizes.rows,
        stream_tokens=sizes.tokens,
        accumulate=sizes.accumulate,
        recompute=sizes.recompute,
        optimiser=sizes.optimiser,
        log_every_steps=1,
        dtype=dtype,
    )
    say("building the model")
    model = build(config)
    parameters, body = model.num_parameters(), body_parameters(model)
    source = _Tokens(sizes, config.vocabulary) if sizes.objective == "tokens" else _Questions(sizes, config.vocabulary)
    say("training" + (" (the first steps compile)" if on_gpu else ""))
    seconds: list[float] = []
    last_sec = time.perf_counter()

    def stepped(done: int, total: int, metrics: dict[str, Any]) -> None:
        nonlocal last_sec
        now = time.perf_counter()
        if done > sizes.warm_up:
            seconds.append(now - last_sec)
        last_sec = now
        on_progress(done, total, metrics)

    with tempfile.TemporaryDirectory() as folder:
        run = Run(model, settings, Path(folder), device, compiled=on_gpu, on_progress=stepped, keeps_checkpoints=False)
        last = run.train(source)
    samples = Samples(tuple(seconds))
    tokens = last["tokens_seen"] / settings.steps
    tokens_per_sec = tokens / samples.median
    flops_per_sec = 6 * body * tokens_per_sec
    peak = run.speed.peak_flops_per_sec
    return Result(
        name="train",
        values={
            "step": {**samples.to_json()},
            "tokens_per_step": round(tokens),
            "tokens_per_sec": tokens_per_sec,
            "model_flops_per_sec": flops_per_sec,
            "share_of_matmul": flops_per_sec / ceilings.matmul_flops_per_sec,
            "mfu": None if peak is None else flops_per_sec / peak,
            "estimate": {"total_tokens": sizes.total_tokens, "run_sec": sizes.total_tokens / tokens_per_sec},
            "peak_memory_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else None,
            "objective": sizes.objective,
            "optimiser": sizes.optimiser,
            "rows": sizes.rows,
            "row_tokens": sizes.tokens,
            "accumulate": sizes.accumulate,
        },
        ratios={},
        ceiling=ceilings.to_json(),
        machine=machine,
        subject=Subject(
            f"{RANDOM}{preset}",
            parameters,
            dtype,
            str(device),
            codec_named("fp16").encoded_bytes(state_spec(f"{RANDOM}{preset}")),
        ),
        warm_up=sizes.warm_up,
        repeats=sizes.repeats,
        quick=quick,
        notes=(
            "model_flops_per_sec: 6 · parameters without embeddings · tokens, over the median step",
            "share_of_matmul: of the fastest matrix product measured here, in the same dtype and on as many threads",
            "mfu: over the dense BF16 peak of the card's data sheet"
            if peak is not None
            else "mfu: no data sheet gives a peak for this device; see share_of_matmul",
            "estimate: steps of this size alone, without evaluation and checkpoints",
        ),
    )
