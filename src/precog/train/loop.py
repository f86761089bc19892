"""The training loop: deterministic micro-batches, mixed precision with FP32 masters, checkpoints, exact resume.

The loop knows batches and a model. It does not know where the data came from, nor how processes share the weights.
"""

import json
import math
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from precog.backbones.tenns.lora import LoraLinear
from precog.backbones.tenns.model import TennsModel
from precog.errors import PrecogError, StorageError, TrainingError
from precog.interrupt import Interrupt
from precog.train.average import WeightAverage
from precog.train.checkpoint import latest_checkpoint, load_checkpoint, named_checkpoint, save_checkpoint
from precog.train.data.batches import Batch, TokenBatch
from precog.train.identity import CALLED, check_identity
from precog.train.interrupt import TrainingInterrupted
from precog.train.metrics import MetricsLog
from precog.train.microbatch import NAMES, Scoring, as_tokens, describe, means, token_counts
from precog.train.objective import LossWeights, summed_cross_entropy
from precog.train.optimiser import optimisers
from precog.train.parallel import Workers, agreed, kind_of, place_in_world, summed
from precog.train.questions import QuestionBatch
from precog.train.recorded import Recorder
from precog.train.schedule import learning_rate_factor
from precog.train.seal import read_record
from precog.train.settings import TrainSettings
from precog.train.speed import Speed, body_parameters

__all__ = ["BAD_BATCH_FILE", "BatchSource", "Run"]

BAD_BATCH_FILE = "bad_batch.json"
NAME_BYTES = 64
"""Room for the name of a checkpoint, which the first process tells the others."""


@runtime_checkable
class BatchSource(Protocol):
    """Batches by number: the same number gives the same batch in every run, of the same kind in every process.

    A source may also say where a batch comes from: ``describe(number)`` returns a line per row.
    """

    def batch(self, step: int) -> Batch | TokenBatch:
        """The arrays of micro-batch ``step`` for this process."""
        ...


def _prefetched(
    source: BatchSource, first: int, last: int, workers: int = 4
) -> Generator[Batch | TokenBatch, None, None]:
    """Batches first … last − 1 in order, prepared ahead by threads."""
    pool = ThreadPoolExecutor(workers)
    try:
        pending = [pool.submit(source.batch, number) for number in range(first, min(last, first + 2 * workers))]
        for number in range(first, last):
            ahead = number + 2 * workers
            if ahead < last:
                pending.append(pool.submit(source.batch, ahead))
            yield pending.pop(0).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Run:
    """One training run; ``Run(…).train(…)`` returns the last line of its metrics.

    Args:
        model: what is trained; parameters that need no gradient stay as they are.
        settings: how.
        out: folder of checkpoints and metrics.
        device: of this process.
        compiled: compile the blocks.
        on_metrics: called with every line of metrics, in the first process.
        on_progress: called after every step with steps done, steps in all, and the latest metrics with the step's own
            loss, in the first process.
        identity: what else a resumed run must share, such as a fingerprint of the data; plain data.
        keeps_checkpoints: False writes none.
        say: called with what a person should know, in the first process.
        called: what people call parts of the identity.

    Raises:
        TrainingError: the settings contradict the processes.
    """

    def __init__(
        self,
        model: TennsModel,
        settings: TrainSettings,
        out: Path,
        device: torch.device,
        compiled: bool = False,
        on_metrics: Callable[[dict[str, Any]], None] = lambda metrics: None,
        on_progress: Callable[[int, int, dict[str, Any]], None] = lambda done, total, metrics: None,
        identity: Mapping[str, Any] | None = None,
        keeps_checkpoints: bool = True,
        say: Callable[[str], None] = lambda line: None,
        called: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model.to(device)
        self.settings = settings
        self.out = out
        self.device = device
        self.on_metrics = on_metrics
        self.on_progress = on_progress
        self.keeps_checkpoints = keeps_checkpoints
        self.say = say
        self.called = dict(called or {})
        self.rank, self.world = place_in_world()
        self.variation = settings.variation(model.config.layers)
        self.dtype = torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32
        self.wide = torch.float32 if device.type == "mps" else torch.float64
        self.model.recompute = settings.recompute
        model.drop(settings.dropout)
        adapters = (layer for layer in model.modules() if isinstance(layer, LoraLinear))
        self.drops = settings.dropout > 0 or any(layer.dropout > 0 for layer in adapters)
        self.speed = Speed(body_parameters(model), device, self.world)
        self.workers = Workers(model, kind_of(settings.parallel, model, settings.optimiser), device, compiled)
        self.optimisers = optimisers(
            model, settings.optimiser, settings.lr, settings.weight_decay, settings.embedding_lr_scale
        )
        self.average = WeightAverage(model, settings.ema) if settings.ema else None
        self.scoring = Scoring(
            device,
            self.dtype,
            self.variation,
            settings.seed,
            compiled,
            torch.compile(summed_cross_entropy, dynamic=True) if compiled else summed_cross_entropy,
        )
        self.recorder = self._recorder()
        self.ready: dict[int, QuestionBatch] = {}  # the next step's batch, on the device
        self.tokens_seen = 0
        self.window: list[list[float]] = []  # steps since the last line of metrics
        self.record: dict[str, Any] = {
            "settings": asdict(settings),
            "config": model.config.to_dict(),
            "world": self.world,
            **(identity or {}),
        }

    def _recorder(self) -> Recorder | None:
        if not self.settings.recorded:
            return None
        if self.device.type != "cuda" or self.workers.kind == "fsdp" or self.settings.accumulate != 1:
            raise TrainingError(
                "a recorded run needs CUDA, whole copies of the model and one micro-batch a step",
                given=f"{self.device.type}, {self.workers.kind}, accumulate={self.settings.accumulate}",
                hint="leave out recorded=true",
            )
        return Recorder(self.model, self.scoring)

    def _found(self) -> Path | None:
        """The checkpoint to go on from; the first process reads every byte of it, for all."""
        found = None
        with agreed(self.device):
            if self.rank == 0:
                found = latest_checkpoint(self.out, self.say)
        names = b"" if found is None else found.name.encode()
        letters = torch.zeros(NAME_BYTES, dtype=torch.int32)
        letters[: len(names)] = torch.tensor(list(names), dtype=torch.int32)
        name = bytes(summed(letters.to(self.device)).tolist()).rstrip(b"\0").decode()
        return self.out / name if name else None

    def resume(self) -> int:
        """Load the newest checkpoint of the output folder and return the step to go on from; 0 when there is none.

        Raises:
            TrainingError: the checkpoint is damaged, or belongs to other settings, another shape, number of processes
                or data.
        """
        path = self._found()
        with agreed(self.device):
            return 0 if path is None else self._load(path)

    def _load(self, path: Path) -> int:
        record = read_record(path)
        check_identity(self.out, record, self.record, self.called)
        window = record.get("window", [])
        if any(len(row) != 2 + 2 * len(NAMES) for row in window):
            raise TrainingError(f"the checkpoint is damaged: {path}: a window of other losses")
        average = None if self.average is None else self.average.values
        load_checkpoint(path, self.model, self.optimisers, average)
        self.tokens_seen, self.window = int(record.get("tokens_seen", 0)), list(window)
        return int(record["step"])

    def _weights(self, progress: float) -> LossWeights:
        s = self.settings
        late = max(0.0, 2 * progress - 1)
        context = s.context_weight + (s.context_weight_final - s.context_weight) * late
        return LossWeights(
            context=context,
            recite=s.recite_weight,
            question=s.question_weight,
            answer=s.answer_weight,
            grounded=s.grounded_weight,
            context_share=s.context_share,
        )

    def _draw_from(self, number: int) -> None:
        """What a micro-batch drops depends on its number alone, so that a resumed run drops the same.

        PyTorch's own generator is what dropout draws from, and what is restored where a block is computed again.
        """
        if self.drops:
            seed = np.random.SeedSequence((self.settings.seed, number, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(seed[0]))

    def _backward(self, arrays: list[Batch | TokenBatch], step: int, weights: LossWeights) -> tuple[Tensor, Tensor]:
        """Gradients of a step; the losses of its micro-batches, and their sums and counts added up."""
        losses, scores = [], []
        try:
            if self.recorder is not None and as_tokens(arrays[0]) is None:
                self._draw_from(step)
                asked = self.ready.pop(step, None) or self.scoring.placed(cast(Batch, arrays[0]), step)
                loss, found = self.recorder.run(asked, weights, self.scoring.factors(asked, weights))
                self.workers.average_gradients()
                return loss[None], found
            for part, batch in enumerate(arrays):
                self.workers.begin(part == len(arrays) - 1)
                self._draw_from(step * len(arrays) + part)
                loss, found = self.workers.run(self.scoring.loss(batch, step * len(arrays) + part, weights))
                (loss / len(arrays)).backward()  # type: ignore[no-untyped-call]  # torch leaves backward untyped
                losses.append(loss.detach())
                scores.append(found)
            self.workers.average_gradients()
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"the device is out of memory in step {step + 1}: {str(error).splitlines()[0]}",
                hint="lower batch_chunks or stream_rows and raise accumulate by as much, or set recompute=true",
            ) from error
        return torch.stack(losses), torch.stack(scores).sum(0)

    def train(
        self, source: BatchSource, evaluate: Callable[[TennsModel], dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Train from the newest checkpoint to the end of the schedule.

        SIGINT and SIGTERM end the run after the step in progress, with a checkpoint.

        Args:
            source: micro-batches; step s reads numbers s · accumulate and on.
            evaluate: called in every process, with the average of the weights where there is one.

        Raises:
            TrainingError: the loss is not finite; the last checkpoint is intact, the batch is in ``bad_batch.json``.
            TrainingInterrupted: a signal asked for it.
            StorageError: the disk is full or refuses; the last checkpoint is intact.
        """
        start = self.resume()
        with agreed(self.device):
            log = MetricsLog(self.out, start) if self.rank == 0 else None
        interrupt = Interrupt()
        try:
            with interrupt.listening():
                return self._train(source, evaluate, start, log, interrupt)
        finally:
            if log is not None:
                log.close()

    def _train(
        self,
        source: BatchSource,
        evaluate: Callable[[TennsModel], dict[str, Any]] | None,
        start: int,
        log: MetricsLog | None,
        interrupt: Interrupt,
    ) -> dict[str, Any]:
        settings, size = self.settings, self.settings.accumulate
        began = time.monotonic()
        metrics: dict[str, Any] = {"step": start, "world": self.world, "tokens_seen": self.tokens_seen}
        elapsed_sec = 0.0
        done = start
        batches = _prefetched(source, start * size, settings.steps * size)
        self.speed.restart()
        arrays, failure = self._next(batches, start)
        with agreed(self.device):
            if failure is not None:
                raise failure
        try:
            for step in range(start, settings.steps):
                by_time = elapsed_sec / (60 * settings.minutes) if settings.minutes else 0.0
                progress = max(step / settings.steps, by_time)
                if progress >= 1.0:
                    break
                losses, scores = self._backward(arrays, step, self._weights(progress))
                norm = self.workers.clip_gradients(settings.clip)
                valid, padded = (sum(counts) for counts in zip(*map(token_counts, arrays), strict=True))
                following, failure = self._next(batches, step + 1)
                # one exchange and one wait per step: sums over processes, and what every one of them must know
                elapsed_sec = (time.monotonic() - began) * (self.rank == 0)
                own = [valid, padded, interrupt.is_wanted, failure is not None, elapsed_sec]
                values = torch.cat((losses.mean()[None], scores.flatten(), losses.new_tensor(own)))
                *shared, norm_value = torch.cat((summed(values.to(self.wide)), norm[None].to(self.wide))).tolist()
                loss = shared[0] / self.world
                if not (math.isfinite(loss) and math.isfinite(norm_value)):
                    self._refuse(source, step, arrays, losses, loss, norm_value)
                factor = learning_rate_factor(settings, step, progress)
                self._update(factor, step)
                done = step + 1
                all_valid, all_padded, is_wanted, has_failed, elapsed_sec = shared[-5:]
                self.tokens_seen += int(all_valid)
                self.speed.add(int(all_valid), int(all_padded))
                last = done == settings.steps
                if settings.log_every_steps:
                    self.window.append([loss, norm_value, *shared[1:-5]])
                if settings.log_every_steps and (done % settings.log_every_steps == 0 or last):
                    metrics = {
                        "step": done,
                        **means(self.window),
                        "lr": settings.lr * factor,
                        "progress": round(progress, 4),
                        "tokens_seen": self.tokens_seen,
                        **self.speed.read(),
                        "elapsed_sec": round(elapsed_sec, 1),
                        "world": self.world,
                    }
                    self.window = []
                    self._write(log, metrics)
                    self.speed.restart()
                if self.rank == 0:
                    self.on_progress(done, settings.steps, {**metrics, "step": done, "loss": loss})
                if is_wanted and not last:
                    saved = self.save(done)
                    with agreed(self.device):
                        raise TrainingInterrupted(done, saved)
                self._between(log, done, evaluate if not last else None, last)
                if has_failed:
                    with agreed(self.device):
                        if failure is not None:
                            raise failure
                arrays = following
        finally:
            batches.close()
        self.save(done)
        if evaluate:
            metrics = {**metrics, "step": done, "evaluation": self._evaluation(evaluate)}
            self._write(log, metrics)
        return metrics

    def _next(
        self, batches: Generator[Batch | TokenBatch, None, None], step: int
    ) -> tuple[list[Batch | TokenBatch], PrecogError | None]:
        """The micro-batches of a step, or why there are none."""
        if step >= self.settings.steps:
            return [], None
        try:
            arrays = [next(batches) for _ in range(self.settings.accumulate)]
            if self.recorder is not None and as_tokens(arrays[0]) is None:  # while the device replays the step before
                self.ready = {step: self.scoring.placed(cast(Batch, arrays[0]), step)}
            return arrays, None
        except PrecogError as error:
            return [], error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            failure = TrainingError(f"a batch cannot be made for step {step + 1}: {reason}")
            failure.__cause__ = error
            return [], failure

    def _update(self, factor: float, step: int) -> None:
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["peak_lr"] * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(step)

    def _between(
        self, log: MetricsLog | None, done: int, evaluate: Callable[[TennsModel], dict[str, Any]] | None, last: bool
    ) -> None:
        """What happens every so many steps."""
        every = self.settings
        if evaluate and every.evaluate_every_steps and done % every.evaluate_every_steps == 0:
            self._write(log, {"step": done, "evaluation": self._evaluation(evaluate)})
            self.speed.restart()
        if every.save_every_steps and done % every.save_every_steps == 0 and not last:
            self.save(done)
            self.speed.restart()

    def _evaluation(self, evaluate: Callable[[TennsModel], dict[str, Any]]) -> dict[str, Any]:
        with self.averaged():
            return self.workers.run(evaluate)

    def averaged(self) -> "_Averaged":
        """A context in which the model's weights are their average, where the run keeps one."""
        return _Averaged(self)

    def save(self, step: int) -> Path | None:
        """Write a checkpoint; all processes call it, the first one writes."""
        if not self.keeps_checkpoints:
            return None
        self.workers.reshard()
        average = None if self.average is None else self.average.values
        record = {**self.record, CALLED: self.called, "tokens_seen": self.tokens_seen, "window": self.window}
        with agreed(self.device):
            return save_checkpoint(self.out, step, self.model, self.optimisers, record, average=average)

    def _refuse(
        self,
        source: BatchSource,
        step: int,
        arrays: list[Batch | TokenBatch],
        losses: Tensor,
        loss: float,
        norm: float,
    ) -> NoReturn:
        """Stop at a step whose loss or gradient is no number; weights and optimiser are as before it."""
        finite = torch.isfinite(losses).tolist()
        guilty = [i for i, is_finite in enumerate(finite) if not is_finite]
        bad = torch.zeros(self.world, device=self.device)
        bad[self.rank] = len(guilty)
        teller = int(summed(bad).argmax())  # where every loss is finite and a gradient is not, the first process
        with agreed(self.device):
            if self.rank == teller:
                first, told = step * len(arrays), getattr(source, "describe", None)
                batches = [
                    describe(arrays[i], first + i, self.rank, None if told is None else told(first + i))
                    for i in guilty or range(len(arrays))
                ]
                path = self.out / BAD_BATCH_FILE
                note = {"step": step + 1, "loss": str(loss), "gradient_norm": str(norm), "micro_batches": batches}
                try:
                    path.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
                except OSError as error:
                    raise StorageError("the bad batch cannot be described", given=path, hint=error.strerror) from error
                kept = named_checkpoint(self.out)
                saved = "no checkpoint was written yet" if kept is None else f"the last good checkpoint is {kept}"
                raise TrainingError(
                    f"the loss is not finite: step {step + 1}, loss {loss}, gradient norm {norm}, "
                    f"micro-batch {batches[0]['summary']}",
                    hint=f"see {path}; lower lr or inspect the data; {saved}",
                )
        raise AssertionError("one process has raised")

    def _write(self, log: MetricsLog | None, metrics: dict[str, Any]) -> None:
        with agreed(self.device):
            if log is not None:
                log.write(metrics)
        if log is not None:
            self.on_metrics(metrics)


class _Averaged:
    """Exchanges the weights for their average, and back; gathered copies are dropped both times."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._inside = nullcontext() if run.average is None else run.average.in_place()

    def __enter__(self) -> None:
        self._run.workers.reshard()
        self._inside.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._run.workers.reshard()
        self._inside.__exit__(*raised)
