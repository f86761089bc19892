"""What experiments are built from: model, encoder, questions; each is made when it is first asked for."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.backbones.registry import load_backbone
from precog.encoders import Encoder, load_encoder
from precog.evaluate.hotpot_data import HotpotQuestion, read_hotpot
from precog.evaluate.natural_questions_data import read_natural_questions
from precog.evaluate.paper.data_files import DataFiles
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.scores import decoding_of
from precog.evaluate.squad_data import Question, read_questions

__all__ = ["Apparatus", "Choice"]


@dataclass(frozen=True)
class Choice:
    """What a user chose of the run.

    Attributes:
        model, device, threads, dtype, encoder: as in `precog.config.Settings`.
        seed: of every subset and draw.
    """

    model: str | None = None
    device: str = "auto"
    threads: int | None = None
    dtype: str = "auto"
    encoder: str | None = None
    seed: int = 0


class Apparatus:
    """Everything that experiments share.

    Args:
        choice: model and encoder.
        data: files of the data sets.
        folder: where keys of paragraphs are kept.
    """

    def __init__(self, choice: Choice, data: DataFiles, folder: Path) -> None:
        self.choice, self.data, self.folder = choice, data, folder
        self.backbone = cache(self._backbone)
        self.encoder = cache(self._encoder)
        self.squad = cache(self._squad)
        self.hotpot = cache(self._hotpot)
        self.nq = cache(self._nq)
        self.reader = cache(self._reader)

    def _backbone(self, encode_mode: str = "once") -> Backbone:
        chosen = self.choice
        return load_backbone(
            chosen.model, encode_mode=encode_mode, device=chosen.device, threads=chosen.threads, dtype=chosen.dtype
        )

    def _encoder(self) -> Encoder:
        return load_encoder(self.choice.encoder)

    def _squad(self) -> list[Question]:
        return read_questions(self.data["squad"])

    def _hotpot(self) -> list[HotpotQuestion]:
        return read_hotpot(self.data["hotpot"])

    def _nq(self) -> list[Question]:
        return read_natural_questions(self.data["nq"])

    def _reader(self, encode_mode: str = "once") -> ParagraphReader:
        """Answers as users get them: FP16 states, decoding as the model's card says."""
        backbone = self.backbone(encode_mode)
        return ParagraphReader(backbone, "fp16", decoding_of(backbone))
