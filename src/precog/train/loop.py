"""The training loop: deterministic batches, mixed precision with FP32 masters, atomic checkpoints, exact resume.

One process per device; several processes (torchrun) average their gradients. The loop knows batches and a model; it
does not know where the data came from.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch import Tensor

from precog.backbones.tenns.model import TennsModel
from precog.errors import TrainingError
from precog.train.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from precog.train.data.batches import Batch
from precog.train.objective import LossWeights, Scores, score, summed_cross_entropy
from precog.train.optimiser import optimisers
from precog.train.questions import Variation, place
from precog.train.settings import TrainSettings

PARTS = ("context", "recite", "question", "answer", "grounded", "exact")


@runtime_checkable
class BatchSource(Protocol):
    """Batches by number: the same step gives the same batch in every run."""

    def batch(self, step: int) -> Batch:
        """The arrays of one step for this process."""
        ...


def learning_rate_factor(settings: TrainSettings, step: int, progress: float) -> float:
    """Linear warm-up, then a cosine down to ``final_lr_fraction``; ``progress`` runs from 0 to 1."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    floor = settings.final_lr_fraction
    return warm * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def _prefetched(source: BatchSource, first: int, last: int, workers: int = 4) -> Iterator[tuple[int, Batch]]:
    """Batches first … last − 1 in order, prepared ahead by threads."""
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(source.batch, step) for step in range(first, min(last, first + 2 * workers))]
        for step in range(first, last):
            ahead = step + 2 * workers
            if ahead < last:
                pending.append(pool.submit(source.batch, ahead))
            yield step, pending.pop(0).result()


class Run:
    """One training run; ``Run(…).train(…)`` returns the last line of its metrics."""

    def __init__(
        self,
        model: TennsModel,
        settings: TrainSettings,
        out: Path,
        device: torch.device,
        compiled: bool = False,
        on_metrics: Callable[[dict[str, Any]], None] = lambda metrics: None,
    ) -> None:
        self.model = model.to(device)
        self.settings = settings
        self.out = out
        self.device = device
        self.on_metrics = on_metrics
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.variation = settings.variation(model.config.layers)
        self.dtype = torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32
        self.optimisers = optimisers(
            model, settings.optimiser, settings.lr, settings.weight_decay, settings.embedding_lr_scale
        )
        self.cross_entropy: Callable[[Tensor, Tensor], Tensor] = summed_cross_entropy
        if compiled:
            for block in self.model.blocks:
                block.compile(dynamic=False)
            self.cross_entropy = torch.compile(summed_cross_entropy, dynamic=True)
        self.record: dict[str, Any] = {
            "settings": asdict(settings),
            "config": model.config.to_dict(),
            "world": self.world,
        }

    def resume(self) -> int:
        """Load the newest checkpoint of the output folder and return the step to go on from; 0 when there is none.

        Raises:
            TrainingError: the checkpoint belongs to other settings.
        """
        path = latest_checkpoint(self.out)
        if path is None:
            return 0
        record = json.loads((path / "record.json").read_text())
        for part in ("config", "settings", "world"):
            if record.get(part) != self.record[part]:
                raise TrainingError(
                    f"the run to resume has another {part}",
                    given=json.dumps(self.record[part], sort_keys=True),
                    expected=json.dumps(record.get(part), sort_keys=True),
                    hint="pass the same options, or choose another --out folder",
                )
        return int(load_checkpoint(path, self.model, self.optimisers)["step"])

    def _average_gradients(self) -> None:
        if self.world == 1:
            return
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
        for gradient, averaged in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(averaged.view_as(gradient))

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

    def _progress(self, step: int, elapsed_sec: float) -> float:
        by_step = step / self.settings.steps
        by_time = elapsed_sec / (60 * self.settings.minutes) if self.settings.minutes else 0.0
        progress = max(by_step, by_time)
        if self.world > 1 and self.settings.minutes:  # every process must follow the same schedule and stop together
            shared = torch.tensor(progress, device=self.device)
            dist.broadcast(shared, 0)
            progress = float(shared)
        return progress

    def train(
        self, source: BatchSource, evaluate: Callable[[TennsModel], dict[str, float]] | None = None
    ) -> dict[str, Any]:
        """Train from the newest checkpoint to the end of the schedule.

        Raises:
            TrainingError: the loss is not finite; the last checkpoint is intact and the batch is named.
        """
        settings = self.settings
        start = self.resume()
        began = time.monotonic()
        window: list[Tensor] = []
        tokens = 0
        window_began = began
        metrics: dict[str, Any] = {"step": start, "world": self.world}
        log = (self.out / "metrics.jsonl").open("a") if self.rank == 0 else None
        step = start
        try:
            for step, arrays in _prefetched(source, start, settings.steps):
                progress = self._progress(step, time.monotonic() - began)
                if progress >= 1.0:
                    break
                batch = place(arrays, self.device, self.variation, (settings.seed, step, self.rank))
                factor = learning_rate_factor(settings, step, progress)
                weights = self._weights(progress)
                scores = score(self.model, batch, weights, self.dtype, self.cross_entropy)
                loss = scores.loss(weights)
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves backward untyped
                self._average_gradients()
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
                for optimiser in self.optimisers:
                    for group in optimiser.param_groups:
                        group["lr"] = group["peak_lr"] * factor
                    optimiser.step()
                    optimiser.zero_grad(set_to_none=True)
                window.append(torch.stack([loss.detach(), norm.detach(), *_means(scores)]))
                tokens += int(arrays["context_len"].sum()) + int(arrays["row_len"].sum())
                done = step + 1
                last = done == settings.steps
                if settings.log_every_steps and (done % settings.log_every_steps == 0 or last):
                    values = torch.stack(window).mean(0).tolist()
                    if not all(math.isfinite(v) for v in values[:2]):
                        raise TrainingError(
                            "the loss is not finite",
                            given=f"steps {done - len(window)} to {done - 1}: loss {values[0]}, norm {values[1]}",
                            hint=f"lower --lr or inspect the data; last good checkpoint: {latest_checkpoint(self.out)}",
                        )
                    now = time.monotonic()
                    names = ("loss", "gradient_norm", *PARTS)
                    metrics = {
                        "step": done,
                        **{name: round(value, 5) for name, value in zip(names, values, strict=True)},
                        "lr": settings.lr * factor,
                        "progress": round(progress, 4),
                        "tokens_per_sec": round(self.world * tokens / (now - window_began)),
                        "elapsed_sec": round(now - began, 1),
                        "world": self.world,
                    }
                    window, tokens, window_began = [], 0, now
                    self._write(log, metrics)
                if (
                    evaluate
                    and settings.evaluate_every_steps
                    and done % settings.evaluate_every_steps == 0
                    and not last
                ):
                    self._write(log, {"step": done, "evaluation": evaluate(self.model)})
                    window_began = time.monotonic()
                if settings.save_every_steps and done % settings.save_every_steps == 0 and not last:
                    self.save(done)
            else:
                step = settings.steps
            self.save(step)
            if evaluate:
                metrics = {**metrics, "evaluation": evaluate(self.model)}
                self._write(log, metrics)
        finally:
            if log is not None:
                log.close()
        return metrics

    def save(self, step: int) -> None:
        """Write a checkpoint; one process does."""
        if self.rank == 0:
            save_checkpoint(self.out, step, self.model, self.optimisers, self.record)
        if self.world > 1:
            dist.barrier()

    def _write(self, log: Any, metrics: dict[str, Any]) -> None:
        if log is not None:
            log.write(json.dumps(metrics) + "\n")
            log.flush()
            self.on_metrics(metrics)


def _means(scores: Scores) -> list[Tensor]:
    return [
        (getattr(scores, name)[0].detach().float() / getattr(scores, name)[1].clamp(min=1)).float() for name in PARTS
    ]


def evaluate_batches(
    model: TennsModel,
    batches: list[Batch],
    device: torch.device,
    dtype: torch.dtype,
    use_state: bool = True,
    variation: Variation = Variation(),  # noqa: B008  # frozen
) -> dict[str, float]:
    """Mean cross-entropies and the share of rows that greedy grounded decoding would answer exactly.

    Runs with gradients enabled and in the shapes of training, so that compiled blocks are reused as they are.
    """
    totals = dict.fromkeys(PARTS, 0.0)
    counts = dict.fromkeys(PARTS, 0.0)
    model.eval()
    for arrays in batches:
        batch = place(arrays, device, variation, (0,))
        scores = score(model, batch, LossWeights(), dtype, use_state=use_state)
        for name in PARTS:
            total, count = getattr(scores, name)
            totals[name] += float(total.detach())
            counts[name] += float(count.detach())
    model.train()
    return {name: round(totals[name] / max(1.0, counts[name]), 4) for name in PARTS}
