"""Weights to start from: a safetensors file, a model folder, or the folder of a training run."""

from collections.abc import Callable
from pathlib import Path

from precog.backbones.tenns.checkpoint import CARD_FILE, UNREADABLE, WEIGHTS_FILE, load_model, reason_of
from precog.backbones.tenns.model import TennsModel
from precog.errors import TrainingError
from precog.train.checkpoint import AVERAGE, WEIGHTS, fill, latest_checkpoint
from precog.train.seal import FILES, RECORD, digest_of, read_record


def load_initial(model: TennsModel, path: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Fill a model with weights; of a training run, those of the newest checkpoint, averaged where it keeps an average.

    Args:
        model: to fill.
        path: of the file or folder.
        say: told when a run's newest checkpoint is damaged and another is taken.

    Raises:
        TrainingError: there are none, they are damaged, or they are of another shape or hold no real numbers.
        ModelError: a model folder is damaged.
    """
    if path.is_dir() and (path / CARD_FILE).is_file():
        other, _ = load_model(path)
        if other.config != model.config:
            theirs, mine = other.config.to_dict(), model.config.to_dict()
            names = [name for name in mine if mine[name] != theirs[name]]
            raise TrainingError(
                "the initial weights are of another shape",
                given=f"{path}: " + ", ".join(f"{name} {theirs[name]}" for name in names),
                expected=", ".join(f"{name} {mine[name]}" for name in names),
                hint="pass the preset the model was made with",
            )
        model.load_state_dict(other.state_dict(), strict=True)
        return
    if path.name == WEIGHTS_FILE and (path.parent / CARD_FILE).is_file():
        load_initial(model, path.parent)  # whose digest covers it
        return
    file = path
    if path.is_dir():
        folder = latest_checkpoint(path, say) or path
        file = next((folder / name for name in (AVERAGE, WEIGHTS) if (folder / name).is_file()), folder / WEIGHTS)
        if not file.is_file():
            raise TrainingError(
                "there are no initial weights",
                given=path,
                expected="a safetensors file, a model folder, or the folder of a training run",
            )
    try:
        _check_seal(file)
        fill(dict(model.state_dict()), file)
    except UNREADABLE as error:
        raise TrainingError(
            "the initial weights do not fit the model",
            given=f"{file}: {reason_of(error)}",
            expected="the same preset",
        ) from error


def _check_seal(file: Path) -> None:
    """Compare a file with the record of the checkpoint it lies in, where one says what it was.

    Raises:
        TrainingError: it is not what was written.
    """
    if not (file.parent / RECORD).is_file():
        return
    try:
        expected = read_record(file.parent)[FILES].get(file.name)
    except TrainingError as error:
        if "without digests" in error.message:
            return
        raise
    if expected is not None and digest_of(file) != expected:
        raise TrainingError(f"the initial weights are damaged: {file} is not what was written")
