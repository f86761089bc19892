"""One variant of a study: trained on pairs, then on prepared data, and measured after each."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from precog.backbones.tenns.model import TennsModel, build
from precog.errors import TrainingError
from precog.train.data.batches import Batch, MixtureEntry, QuestionBatches
from precog.train.evaluation import evaluate_batches
from precog.train.loop import BatchSource, Run
from precog.train.mixture import PhasedBatches, prepared_sets, read_phases
from precog.train.objective import LossWeights, score
from precog.train.questions import Variation, place
from precog.train.settings import TrainSettings
from precog.train.study.pairs import PairBatches
from precog.train.study.plan import Plan, Variant

__all__ = ["run_variant"]

EVALUATION_BATCHES = 4
EVALUATION_SEED = 1 << 20  # no seed of training
PAIR_VOCABULARY = 8000
ANSWERS_ONLY = LossWeights(context=0.0, question=0.0)


def _warm(model: TennsModel, batches: Sequence[Batch], device: torch.device, dtype: torch.dtype) -> None:
    """Compile what is compiled on first use, so that no schedule by the clock pays for it; nothing is learnt."""
    weights = LossWeights()
    for arrays in batches:
        scores = score(model, place(arrays, device, Variation(), (0,)), weights, dtype)
        scores.loss(weights).backward()  # type: ignore[no-untyped-call]  # torch leaves backward untyped
    model.zero_grad(set_to_none=True)


@torch.no_grad()
def _exact(
    model: TennsModel, batches: Sequence[Batch], device: torch.device, dtype: torch.dtype, variation: Variation
) -> float:
    """Share of the rows that greedy grounded decoding answers exactly."""
    right = asked = 0.0
    model.eval()
    for arrays in batches:
        found, rows = score(model, place(arrays, device, variation, (0,)), ANSWERS_ONLY, dtype).exact
        right, asked = right + float(found), asked + float(rows)
    model.train()
    return round(right / asked, 4)


def _train(
    model: TennsModel,
    settings: TrainSettings,
    source: BatchSource,
    folder: Path,
    device: torch.device,
    measure: Callable[[TennsModel], dict[str, float]] | None = None,
) -> dict[str, Any]:
    """Train through one phase: what it cost, and the curve of what was measured on the way. No weights are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    curve: list[dict[str, Any]] = []
    num_steps = 0

    def count(done: int, _total: int, _metrics: dict[str, Any]) -> None:
        nonlocal num_steps
        num_steps = done

    def note(line: dict[str, Any]) -> None:
        if "evaluation" in line:
            curve.append({"step": line["step"], **line["evaluation"]})

    run = Run(model, settings, folder, device, on_metrics=note, on_progress=count, keeps_checkpoints=False)
    began = time.monotonic()
    run.train(source, measure if settings.evaluate_every_steps else None)
    seconds = time.monotonic() - began
    return {
        "steps": num_steps,
        "tokens": run.tokens_seen,
        "seconds": round(seconds, 1),
        "tokens_per_sec": round(run.tokens_seen / seconds),
        "curve": curve,
    }


def run_variant(
    plan: Plan,
    variant: Variant,
    seed: int,
    device: torch.device,
    folder: Path,
    on_result: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Train a variant on pairs, then on prepared data, and measure it after each.

    Args:
        plan: what is measured.
        variant: one of the plan's.
        seed: of its weights and the data order.
        device: where.
        folder: metrics go there.
        on_result: called with what is known so far, after each phase.

    Returns:
        Figures by name, those of prepared data under ``text``.

    Raises:
        TrainingError: data are missing, or the loss is not finite.
    """
    config = variant.config
    settings = dataclasses.replace(variant.recall, seed=seed)
    dtype = torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32
    model = build(config, seed).to(device)
    shape = (settings.batch_chunks, settings.questions_per_chunk, min(PAIR_VOCABULARY, config.vocabulary))

    held_out = {
        pairs: [PairBatches(*shape, seed=EVALUATION_SEED, levels=(pairs,)).batch(i) for i in range(EVALUATION_BATCHES)]
        for pairs in plan.asked
    }

    def recall(model: TennsModel, count: int, variation: Variation) -> dict[str, float]:
        return {
            str(pairs): _exact(model, batches[:count], device, dtype, variation) for pairs, batches in held_out.items()
        }

    warm = [PairBatches(*shape, seed=EVALUATION_SEED, levels=(level,)).batch(0) for level in plan.pairs]
    _warm(model, warm, device, dtype)
    pairs = PairBatches(*shape, seed=seed, levels=plan.pairs, steps=settings.steps)
    trained = _train(model, settings, pairs, folder / "recall", device, lambda model: recall(model, 1, Variation()))
    phases = {"recall": trained}
    result: dict[str, Any] = {
        "variant": variant.name,
        "seed": seed,
        "recall": recall(model, EVALUATION_BATCHES, Variation()),
        "recall_from_rounded_states": recall(model, EVALUATION_BATCHES, Variation(rounded=1.0)),
        "parameters": model.num_parameters(),
        "state_bytes": 2 * config.layers * config.state_reals,
        "config": config.to_dict(),
        "phases": phases,
    }
    on_result(result)
    if variant.text is not None and plan.data is not None:
        settings = dataclasses.replace(variant.text, seed=seed)
        sets = prepared_sets(plan.data / "train")
        rows = (settings.batch_chunks, settings.questions_per_chunk)
        source = PhasedBatches(sets, read_phases(plan.mixture, sets), settings.steps, *rows, seed=seed)
        _warm(
            model,
            [QuestionBatches([MixtureEntry(sets[name], 1.0) for name in sorted(sets)], *rows, seed=0).batch(0)],
            device,
            dtype,
        )
        phases["text"] = _train(model, settings, source, folder / "text", device)
        result["text"] = _read(plan, model, rows, device, dtype)
        if device.type == "cuda":
            result["memory_bytes"] = torch.cuda.max_memory_allocated(device)
        on_result(result)
    return result


def _read(
    plan: Plan, model: TennsModel, shape: tuple[int, int], device: torch.device, dtype: torch.dtype
) -> dict[str, dict[str, float]]:
    """Held-out cross-entropies by set: answers with and without the chunk's state, the chunk's own tokens."""
    assert plan.data is not None
    sets = prepared_sets(plan.data / "val")
    unknown = sorted(set(plan.held_out) - set(sets))
    if unknown:
        raise TrainingError("no such held-out set", given=", ".join(unknown), expected=", ".join(sorted(sets)))
    results = {}
    for name in plan.held_out or sorted(sets):
        source = QuestionBatches([MixtureEntry(sets[name], 1.0)], *shape, seed=EVALUATION_SEED)
        batches = [source.batch(step) for step in range(EVALUATION_BATCHES)]
        reading = evaluate_batches(model, batches, device, dtype)
        blind = evaluate_batches(model, batches, device, dtype, use_state=False)
        results[name] = {
            "answer_with": reading["answer"],
            "answer_without": blind["answer"],
            "exact": reading["exact"],
            "lm": reading["context"],
        }
    return results
