"""Weights to start from: a safetensors file, a model folder, or the folder of a training run."""

from pathlib import Path

from safetensors import SafetensorError

from precog.backbones.tenns.checkpoint import CARD_FILE, load_model
from precog.backbones.tenns.model import TennsModel
from precog.errors import TrainingError
from precog.train.checkpoint import AVERAGE, WEIGHTS, fill, latest_checkpoint


def load_initial(model: TennsModel, path: Path) -> None:
    """Fill a model with weights; of a training run, those of the newest checkpoint, averaged where it keeps an average.

    Raises:
        TrainingError: there are none, or they are of another shape.
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
    file = path
    if path.is_dir():
        folder = latest_checkpoint(path) or path
        file = next((folder / name for name in (AVERAGE, WEIGHTS) if (folder / name).is_file()), folder / WEIGHTS)
        if not file.is_file():
            raise TrainingError(
                "there are no initial weights",
                given=path,
                expected="a safetensors file, a model folder, or the folder of a training run",
            )
    try:
        fill(dict(model.state_dict()), file)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise TrainingError(
            "the initial weights do not fit the model",
            given=f"{file}: {str(error).splitlines()[0]}",
            expected="the same preset",
        ) from error
