"""``precog train ask``: an asker trained, slices of chunks asked about by every process, one prepared set in the end.

::

    WORK/run.json          what the questions were made from; a run that goes on must share it
    WORK/asker/            the asker's training run, its model in WORK/asker/model
    WORK/train/00000.npz   questions about the first slice of DATA/train/ABOUT; WORK/val likewise
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from precog.backbones.registry import load_network
from precog.backbones.tenns.adapter import base_fingerprint
from precog.errors import TrainingError, UsageError
from precog.state import titled
from precog.train.asking.asker import ASKER_FOLDER, contents, is_trained, train_asker
from precog.train.asking.request import TRAIN, VAL, AskRequest
from precog.train.asking.sample import ready
from precog.train.asking.turned import ASKING
from precog.train.asking.writer import Writer
from precog.train.data.rows import PreparedSet
from precog.train.finetune import check_form
from precog.train.identity import CALLED
from precog.train.lock import RunLock
from precog.train.mixture import prepared_sets
from precog.train.parallel import agreed, alone, join, leave, place_in_world
from precog.train.start import MODEL_FOLDER
from precog.train.training_data import highest_id

FORMAT = 1
RUN_FILE = "run.json"


def ask_questions(
    request: AskRequest,
    device: torch.device,
    *,
    compiled: bool = False,
    on_training: Callable[[int, int, dict[str, Any]], None] = lambda done, total, metrics: None,
    on_asking: Callable[[int, int, dict[str, Any]], None] = lambda done, total, metrics: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Write questions about a prepared set, on one device or, under torchrun, on several.

    What is written depends on the seed and the request, not on the number of processes. Finished slices that are found
    are not asked again.

    Args:
        request: model, data, how.
        device: where to compute.
        compiled: compile the blocks while the asker is trained.
        on_training: called after every step of the asker's training, in the first process.
        on_asking: called after every slice of the first process with slices done, of how many, and ``kept`` (share)
            and ``rows_per_sec``.
        say: called with what a person should know, in the first process.

    Returns:
        Per part of the data how many questions were asked, kept and refused, and samples; in every process.

    Raises:
        TrainingError: the data, the model, the asker or what is found in ``work`` do not fit; or no question stayed.
        ModelError: a model is missing or damaged.
        AskingInterrupted: a signal asked for it; finished slices are kept.
        StorageError: the disk is full or refuses.
    """
    if request.settings.parallel == "fsdp":
        raise TrainingError("asking keeps whole copies", given="parallel=fsdp", expected="parallel=ddp")
    device = join(device)
    lock: RunLock | None = None
    try:
        with alone():
            with agreed(device):
                lock = RunLock(request.work) if place_in_world()[0] == 0 else None
            return _ask(request, device, compiled, on_training, on_asking, say)
    finally:
        if lock is not None:
            lock.release()
        leave()


def _ask(
    request: AskRequest,
    device: torch.device,
    compiled: bool,
    on_training: Callable[[int, int, dict[str, Any]], None],
    on_asking: Callable[[int, int, dict[str, Any]], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    with agreed(device):
        judge, card = load_network(request.model)
        check_form(card)
        sets = _opened(request, judge.config.vocabulary)
    folder = request.asker
    trained: dict[str, Any] = {}
    if folder is None:
        folder = request.work / ASKER_FOLDER / MODEL_FOLDER
        if not is_trained(folder, request, card, judge, device):
            trained = train_asker(request, card, judge, device, compiled, on_training)
    with agreed(device):
        asker, asker_card = load_network(folder)
        if asker_card.notes.get("asks") != ASKING or asker_card.tokenizer_sha256 != card.tokenizer_sha256:
            raise TrainingError(
                "this model has not learned to ask",
                given=folder,
                expected="a model that `precog train ask` has trained, in the folder asker/model",
            )
        models = {"judge": base_fingerprint(card, judge), "asker": base_fingerprint(asker_card, asker)}
        _check_run(request, sets, models, {"judge": card.name, "asker": asker_card.name})
    dtype = torch.bfloat16 if request.settings.dtype == "bfloat16" else torch.float32
    writer = Writer(request, ready(asker.to(device), dtype), ready(judge.to(device), dtype), device, dtype)
    result: dict[str, Any] = {"name": request.name, "model": card.name, "asker": str(folder), "training": trained}
    for part in (VAL, TRAIN):
        if part in sets:
            result[part] = writer.write(sets[part], part, on_asking if part == TRAIN else lambda *_: None, say)
    return result


def _opened(request: AskRequest, vocabulary: int) -> dict[str, PreparedSet]:
    """The set to ask about and the held-out one, if there is one; the other options are checked.

    Raises:
        TrainingError: a set is missing, has no answers to learn from, or was made with another vocabulary.
        UsageError: the new set would replace one that no model asked.
    """
    found = prepared_sets(request.data / TRAIN)
    for name in (request.about, *(() if request.asker else (request.learn_from,))):
        if name not in found:
            raise TrainingError(
                "there is no such prepared set",
                given=request.data / TRAIN / name,
                expected=", ".join(sorted(found)),
                hint="prepare it with: precog train-data",
            )
    target = found.get(request.name)
    if target is not None and "asked" not in target.notes:
        raise UsageError(
            "--name: a set of this name is there, and no model asked its questions",
            given=target.folder,
            expected="another name",
        )
    sets = {TRAIN: found[request.about]}
    held_out = request.data / VAL / request.about
    if request.held_out_chunks and (held_out / "meta.json").is_file():
        sets[VAL] = PreparedSet(held_out)
    for rows in sets.values():
        if (highest := max(highest_id(rows.columns[name]) for name in ("context", "questions"))) >= vocabulary:
            raise TrainingError(
                "the model has another vocabulary than the data",
                given=f"token id {highest} in {rows.folder}",
                expected=f"ids below {vocabulary}",
            )
    if request.asker is None and not (found[request.learn_from].columns["answer_len"] > 0).any():
        raise TrainingError(
            "nobody can learn to ask from a set without answers", given=found[request.learn_from].folder
        )
    return sets


def _check_run(
    request: AskRequest, sets: dict[str, PreparedSet], models: dict[str, str], called: dict[str, str]
) -> None:
    """Compare with what the finished slices were made from; the first process writes it down where there are none.

    Args:
        request: what was asked for.
        sets: by part of the data.
        models: fingerprints of judge and asker.
        called: their names, which are told and not compared.

    Raises:
        TrainingError: they were made from something else.
    """
    mine = {
        "format": FORMAT,
        **models,
        "about": request.about,
        "asking": asdict(request.asking),
        "dtype": request.settings.dtype,
        **{part: contents(rows) for part, rows in sets.items()},
    }
    path = request.work / RUN_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:
        raise TrainingError(f"the run to resume is damaged: {path}: {error}", hint="remove it") from error
    if found is None:
        if place_in_world()[0] == 0:
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            temporary.write_text(json.dumps({**mine, CALLED: called}, indent=1), encoding="utf-8")
            temporary.replace(path)
        return
    theirs = found.get(CALLED, {})
    for key, value in mine.items():
        if (other := found.get(key)) != value:
            is_model = key in models
            raise TrainingError(
                f"the questions that are there were made with another {key}",
                given=titled(called[key], models[key]) if is_model else value,
                expected=titled(theirs.get(key, ""), str(other)) if is_model else other,
                hint="pass the same options, or choose another --name or --out",
            )
