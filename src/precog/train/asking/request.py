"""What `precog train ask` was asked for."""

from dataclasses import dataclass
from pathlib import Path

from precog.train.asking.write import Asking
from precog.train.settings import TrainSettings

TRAIN, VAL = "train", "val"


@dataclass(frozen=True)
class AskRequest:
    """What was asked for.

    Attributes:
        model: folder of the model that learns to ask, and that judges.
        data: prepared data; the new set becomes ``data/train/name``.
        work: folder of the asker and of finished slices.
        settings: how to train the asker.
        asking: how to ask.
        learn_from: name of the set whose questions people wrote.
        about: name of the set to ask about.
        name: of the new set.
        asker: folder of an asker that this command has trained; None trains one.
        chunks: most chunks of the set that are asked about; None for all.
        held_out_chunks: the same of the set that is held out.
        seconds: of asking, after which no slice is begun; None for no limit.
        plain: no made questions among the asked ones.
    """

    model: Path
    data: Path
    work: Path
    settings: TrainSettings
    asking: Asking
    learn_from: str = "squad"
    about: str = "wikipop"
    name: str = "asked"
    asker: Path | None = None
    chunks: int | None = None
    held_out_chunks: int = 1024
    seconds: float | None = None
    plain: bool = False
