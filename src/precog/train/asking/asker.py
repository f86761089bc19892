"""The asker: a model that has learned to ask from questions that people wrote, trained once and kept as a model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from precog.backbones.card import ModelCard
from precog.backbones.registry import load_network
from precog.backbones.tenns.adapter import base_fingerprint
from precog.backbones.tenns.checkpoint import CARD_FILE
from precog.backbones.tenns.model import TennsModel
from precog.errors import TrainingError
from precog.state import titled
from precog.train.asking.request import TRAIN, AskRequest
from precog.train.asking.turned import ASKING, ReversedBatches
from precog.train.data.batches import MixtureEntry, QuestionBatches
from precog.train.data.rows import PreparedSet
from precog.train.data.tokens import Pieces
from precog.train.loop import Run
from precog.train.parallel import agreed, place_in_world
from precog.train.settings import TrainSettings
from precog.train.start import MODEL_FOLDER, export

ASKER_FOLDER = "asker"
BASE_NAME = "base_name"


def default_settings(values: dict[str, Any], device: torch.device, world: int = 1) -> TrainSettings:
    """Settings that teach a trained model to ask; ``values`` come first.

    On CUDA a step reads 512 chunks, whatever the number of processes.
    """
    size = {"batch_chunks": 128, "accumulate": max(1, 4 // world)} if device.type == "cuda" else {"batch_chunks": 4}
    chosen: dict[str, Any] = {
        **size,
        "questions_per_chunk": 8 if device.type == "cuda" else 4,
        "parallel": "ddp",
        "optimiser": "muon",
        "lr": 8e-4,
        "warmup_steps": 20,
        "final_lr_fraction": 0.02,
        "context_weight": 0.1,
        "context_weight_final": 0.1,
        "context_share": 0.25,
        "question_weight": 0.0,
        "answer_weight": 1.0,
        "grounded_weight": 0.0,
        "unanswerable": 0.0,
    }
    return TrainSettings.from_dict({**chosen, **values})


def contents(rows: PreparedSet) -> str:
    """What a set holds, in short."""
    checksums = json.loads((rows.folder / "meta.json").read_text(encoding="utf-8"))["crc32"]
    return " ".join(f"{checksums[name]:08x}" for name in sorted(checksums))


def _asker_notes(request: AskRequest, card: ModelCard, judge: TennsModel) -> dict[str, Any]:
    return {
        "asks": ASKING,
        "base": base_fingerprint(card, judge),
        "learned_from": contents(PreparedSet(request.data / TRAIN / request.learn_from)),
        "steps": request.settings.steps,
        "lr": request.settings.lr,
        "seed": request.settings.seed,
    }


def is_trained(folder: Path, request: AskRequest, card: ModelCard, judge: TennsModel, device: torch.device) -> bool:
    """Whether the asker that the request wants is there.

    Raises:
        TrainingError: another one is.
    """
    with agreed(device):
        if not (folder / CARD_FILE).is_file():
            return False
        _, found = load_network(folder)
        wanted = _asker_notes(request, card, judge)
        for key, value in wanted.items():
            if (other := found.notes.get(key)) != value:
                raise TrainingError(
                    f"the asker that is there has another {key}",
                    given=titled(card.name, value) if key == "base" else value,
                    expected=titled(str(found.notes.get(BASE_NAME, "")), str(other)) if key == "base" else other,
                    hint="pass the same options, choose another --out, or give it with --asker",
                )
    return True


def train_asker(
    request: AskRequest,
    card: ModelCard,
    judge: TennsModel,
    device: torch.device,
    compiled: bool,
    on_training: Callable[[int, int, dict[str, Any]], None],
) -> dict[str, Any]:
    """Train the asker, or go on with it, and write its model; the last line of metrics."""
    out = request.work / ASKER_FOLDER
    with agreed(device):
        out.mkdir(exist_ok=True)
        notes = _asker_notes(request, card, judge)
        asker, _ = load_network(request.model)
        entries = [MixtureEntry(PreparedSet(request.data / TRAIN / request.learn_from), 1.0)]
        shape = (request.settings.batch_chunks, request.settings.questions_per_chunk)
        rank, world = place_in_world()
        source = QuestionBatches(entries, *shape, seed=request.settings.seed, rank=rank, world=world)
        model = asker.requires_grad_(True).train()
        identity = {"asker": notes}
        run = Run(model, request.settings, out, device, compiled, on_progress=on_training, identity=identity)
    last = run.train(ReversedBatches(source, Pieces()))
    export(run, out / MODEL_FOLDER, f"{card.name}-asker", {**notes, BASE_NAME: card.name})
    return last
