"""Fine-tuning: a trained model goes on with example files, all of it or a low-rank adapter beside it.

The loop is that of training. What is added: the base is opened from its folder, the examples are prepared with a part
held out, and the result says what it was made of and how much better it does on what was held out.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from precog.backbones.card import Json, ModelCard
from precog.backbones.registry import load_network
from precog.backbones.tenns.adapter import base_fingerprint, save_adapter
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.lora import LoraSettings, add_lora, lora_tensors
from precog.backbones.tenns.model import TennsModel
from precog.errors import TrainingError
from precog.text.tokenizer import MISTRAL_SHA256
from precog.train.checkpoint import named_checkpoint
from precog.train.data.batches import MixtureEntry, QuestionBatches
from precog.train.data.tokens import PROMPT
from precog.train.evaluation import OnProgress, count_batches, evaluate_batches
from precog.train.examples import Examples, described, prepare_examples
from precog.train.identity import check_identity
from precog.train.lock import RunLock
from precog.train.loop import Run
from precog.train.parallel import agreed, alone, join, leave, place_in_world
from precog.train.seal import read_record
from precog.train.settings import TrainSettings
from precog.train.start import MODEL_FOLDER, UNLIMITED_BYTES

ADAPTER_FOLDER = "adapter"
EVALUATION_BATCHES = 16
SHOWN, SHOWN_OF_CHAT = ("answer", "grounded", "exact"), ("answer",)
"""Held-out figures: cross-entropy of answers in nats per token, freely and under the mask; share answered exactly."""


@dataclass(frozen=True)
class FinetuneRequest:
    """What was asked for.

    Attributes:
        base: folder of the model or adapter to start from.
        base_name: what an adapter calls it by: an installed model's name, or its folder.
        data: files of examples.
        out: folder of checkpoints, metrics and the result.
        settings: how to train.
        lora: rank and places of an adapter; None trains all weights.
        name: of the result; the output folder's when empty.
        held_out: share of the examples that is never trained on.
    """

    base: Path
    base_name: str
    data: tuple[Path, ...]
    out: Path
    settings: TrainSettings
    lora: LoraSettings | None = None
    name: str = ""
    held_out: float = 0.1


@dataclass(frozen=True)
class Finetuned:
    """What became of it.

    Attributes:
        folder: of the model or adapter.
        metrics: the last line.
        before, after: figures on the held-out examples, see ``SHOWN``.
        num_train, num_held_out, num_left_out: questions trained on, held out, and left out.
        num_too_long: those left out because no row holds them.
    """

    folder: Path
    metrics: dict[str, Any]
    before: dict[str, float]
    after: dict[str, float]
    num_train: int
    num_held_out: int
    num_left_out: int
    num_too_long: int

    def to_json(self) -> dict[str, object]:
        """The last line of metrics with everything else beside it."""
        values = {**asdict(self), "folder": str(self.folder)}
        return {**values.pop("metrics"), **values}


def default_settings(values: Mapping[str, Any], *, lora: bool, only_chat: bool) -> TrainSettings:
    """Settings for little data; ``values`` come first.

    Full fine-tuning takes small steps so that the model keeps what it knows. An adapter starts from nothing and takes
    larger ones. A conversation's replies are free text: they are scored over the whole vocabulary, and no row is asked
    of a stranger.
    """
    muon = values.get("optimiser") == "muon"
    chosen: dict[str, Any] = {
        "parallel": "ddp",
        "optimiser": "adamw",
        "lr": 1e-3 if lora else 2e-4 if muon else 1e-4,
        "weight_decay": 0.0 if lora else 0.01,
        "batch_chunks": 4,
        "questions_per_chunk": 1 if only_chat else 4,
        "context_weight": 0.1,
        "context_weight_final": 0.1,
        "question_weight": 0.0,
        "answer_weight": 1.0 if only_chat else 0.5,
        "grounded_weight": 0.0 if only_chat else 1.0,
        "unanswerable": 0.0 if only_chat else 0.1,
    }
    return TrainSettings.from_dict({**chosen, **values})


def finetune(
    request: FinetuneRequest,
    device: torch.device,
    *,
    compiled: bool = False,
    on_metrics: Callable[[dict[str, Any]], None] = lambda metrics: None,
    on_progress: Callable[[int, int, dict[str, Any]], None] = lambda done, total, metrics: None,
    say: Callable[[str], None] = lambda line: None,
    on_evaluation: OnProgress = lambda done, total, figures: None,
) -> Finetuned:
    """Go on with a model on example files, on one device or, under torchrun, on several.

    A run found in the output folder is resumed.

    Args:
        request: base, data, settings.
        device: where to train.
        compiled: compile the blocks.
        on_metrics: called with every line of metrics, in the first process.
        on_progress: called after every step, in the first process.
        say: called with what a person should know, in the first process.
        on_evaluation: called after every held-out batch with batches done and batches in all, in the first process.

    Raises:
        ModelError: the base is missing or damaged, or an adapter's settings do not fit it.
        InputError: a file of examples cannot be read.
        TrainingError: the run to resume had another base or other data, or the loss is not finite.
        TrainingInterrupted: a signal asked for it; the run was saved.
        StorageError: the disk is full or refuses.
    """
    if request.settings.parallel == "fsdp":
        raise TrainingError("fine-tuning keeps whole copies", given="parallel=fsdp", expected="parallel=ddp")
    device = join(device)
    lock: RunLock | None = None
    examples: Examples | None = None
    try:
        with alone():
            with agreed(device):
                if place_in_world()[0] == 0:
                    lock = RunLock(request.out)
                    _refuse_other_data(request)
                    examples = _prepared(request)
            return _finetune(request, examples, device, compiled, on_metrics, on_progress, say, on_evaluation)
    finally:
        if lock is not None:
            lock.release()
        leave()


def _finetune(
    request: FinetuneRequest,
    prepared: Examples | None,
    device: torch.device,
    compiled: bool,
    on_metrics: Callable[[dict[str, Any]], None],
    on_progress: Callable[[int, int, dict[str, Any]], None],
    say: Callable[[str], None],
    on_evaluation: OnProgress,
) -> Finetuned:
    settings = request.settings
    with agreed(device):
        model, card = load_network(request.base)
        check_form(card)
        fingerprint = base_fingerprint(card, model)
        examples = prepared or _prepared(request)
        if request.lora is None:
            model.requires_grad_(True)
        else:
            add_lora(model, request.lora, settings.seed)
    identity = {
        "base": fingerprint,
        "data": examples.files,
        "held_out": request.held_out,
        "lora": None if request.lora is None else json.loads(json.dumps(asdict(request.lora))),
    }
    run = Run(
        model.train(),
        settings,
        request.out,
        device,
        compiled,
        on_metrics,
        on_progress,
        identity,
        say=say,
        called={"base": card.name, **_called(examples.files)},
    )
    held_out = _held_out_batches(examples, settings)

    def evaluate(model: TennsModel) -> dict[str, float]:
        told = count_batches(len(held_out), on_evaluation if run.rank == 0 else lambda done, total, figures: None)
        plain = run.variation.plain()
        figures = evaluate_batches(model, held_out, device, run.dtype, variation=plain, on_batch=told)
        return {name: figures[name] for name in (SHOWN_OF_CHAT if examples.only_chat else SHOWN)}

    if run.rank == 0:
        if examples.num_left_out:
            say(examples.left_out)
        say(f"measuring {card.name} on held-out examples first")
    before = run.workers.run(evaluate)
    shape = (settings.batch_chunks, settings.questions_per_chunk)
    entries = [MixtureEntry(examples.train, 1.0)]
    source = QuestionBatches(entries, *shape, seed=settings.seed, rank=run.rank, world=run.world)
    last = run.train(source, evaluate)
    after = last["evaluation"]
    folder = request.out / (MODEL_FOLDER if request.lora is None else ADAPTER_FOLDER)
    with agreed(device), run.averaged():
        if run.rank == 0:
            notes = _notes(request, card, fingerprint, examples, int(last["step"]), before, after)
            _save(request, folder, run.model, card, fingerprint, notes)
    return Finetuned(
        folder,
        last,
        before,
        after,
        examples.train.num_questions,
        examples.held_out.num_questions,
        examples.num_left_out,
        examples.num_too_long,
    )


def _refuse_other_data(request: FinetuneRequest) -> None:
    """Before the examples of the run that is there are replaced, and before anything takes long.

    Raises:
        TrainingError: the output folder holds a run on other data.
    """
    path = named_checkpoint(request.out)
    if path is None:
        return
    try:
        record = read_record(path)
    except TrainingError:
        return  # whether another can be used is seen when the run is resumed
    files = described(request.data)
    check_identity(request.out, record, {"data": files}, _called(files))


def _called(files: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Files as a person knows them; of two of one name the checksum tells which."""
    return {"data": ", ".join(f"{file['name']} ({str(file['sha256'])[:8]})" for file in files)}


def _prepared(request: FinetuneRequest) -> Examples:
    return prepare_examples(request.data, request.out / "data", share=request.held_out, seed=request.settings.seed)


def check_form(card: ModelCard) -> None:
    """Whether prepared rows have the form that a model reads.

    Raises:
        TrainingError: they have not.
    """
    asked = (card.question_template, card.chunk_template, card.tokenizer_sha256)
    if asked != (PROMPT, "{chunk}", MISTRAL_SHA256):
        raise TrainingError(
            f"{card.name} reads chunks or questions in a form that examples cannot be written in",
            given=f"{card.chunk_template!r}, {card.question_template!r}",
            expected=f"'{{chunk}}', {PROMPT!r}",
        )


def _held_out_batches(examples: Examples, settings: TrainSettings) -> list[Any]:
    """The held-out chunks once, as far as a few batches reach; the same before and after."""
    shape = (settings.batch_chunks, settings.questions_per_chunk)
    source = QuestionBatches([MixtureEntry(examples.held_out, 1.0)], *shape, seed=settings.seed)
    count = min(EVALUATION_BATCHES, math.ceil(len(examples.held_out) / settings.batch_chunks))
    return [source.batch(step) for step in range(count)]


def _notes(
    request: FinetuneRequest,
    card: ModelCard,
    fingerprint: str,
    examples: Examples,
    steps: int,
    before: dict[str, float],
    after: dict[str, float],
) -> dict[str, Json]:
    method = "full" if request.lora is None else f"lora rank {request.lora.rank}"
    kept = "min_confidence" in card.decoding
    return json.loads(  # type: ignore[no-any-return]  # plain JSON, whatever the parts are typed as
        json.dumps(
            {
                "method": method,
                "base": {"name": card.name, "fingerprint": fingerprint, "notes": dict(card.notes)},
                "data": examples.files,
                "questions": {"train": examples.train.num_questions, "held_out": examples.held_out.num_questions},
                "held_out": {"before": before, "after": after},
                **({"min_confidence": "the base's, not chosen again"} if kept else {}),
            }
        )
    )


def _save(
    request: FinetuneRequest,
    folder: Path,
    model: TennsModel,
    card: ModelCard,
    fingerprint: str,
    notes: dict[str, Json],
) -> None:
    name = request.name or request.out.resolve().name
    if request.lora is not None:
        save_adapter(
            folder,
            lora_tensors(model),
            request.lora,
            name=name,
            base=request.base_name,
            base_fingerprint=fingerprint,
            decoding=card.decoding,
            notes=notes,
        )
        return
    save_model(
        folder,
        model,
        name=name,
        tokenizer_sha256=card.tokenizer_sha256,
        shard_bytes=UNLIMITED_BYTES,
        chunk_template=card.chunk_template,
        question_template=card.question_template,
        decoding=card.decoding,
        chunk_tokens=card.chunk_tokens,
        notes=notes,
    )
