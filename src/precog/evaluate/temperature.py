"""The softmax temperature of the paper's composition: three states averaged by weights from even to one (ERRATA 11)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.engine.composed import Composing
from precog.errors import UsageError
from precog.evaluate.altered import AlteredStates, Given, Variant
from precog.evaluate.experiment import Record
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.retrieving import encoder_of
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import ids_sha256
from precog.evaluate.variants import answers_of
from precog.state import codec_named, compose

__all__ = ["Temperature", "TemperatureSettings"]

BEST = "top1"


@dataclass(frozen=True)
class TemperatureSettings:
    """What is measured.

    Attributes:
        temperatures: of the softmax; the others are compared with 1, the paper's, or with the first without it.
        top_k: states that are composed.
        context: ``gold`` puts the question's own paragraph among them where retrieval did not find it, as the best;
            ``retrieved`` takes what was found.
        codec: how states are stored.
        free: decode freely instead of grounded.
        seed: that the questions were drawn with.
    """

    temperatures: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01)
    top_k: int = 3
    context: str = "gold"
    codec: str = "fp16"
    free: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        codec_named(self.codec)
        for temperature in self.temperatures:
            Composing(temperature=temperature)  # refuses what is no temperature
        if not self.temperatures or len(set(self.temperatures)) != len(self.temperatures):
            given = ", ".join(f"{temperature:g}" for temperature in self.temperatures) or "none"
            raise UsageError("--temperatures names one twice, or none", given=given)
        if self.top_k < 2:
            raise UsageError("--top-k is out of range", given=self.top_k, expected="at least 2")
        if self.context not in ("gold", "retrieved"):
            raise UsageError("--context: no such choice", given=self.context, expected="gold or retrieved")


class Temperature(AlteredStates):
    """Temperatures on SQuAD; the row ``top1`` is the best paragraph's state alone, where T → 0 leads.

    Args:
        questions: that are asked.
        everything: the whole file: its paragraphs are what retrieval searches.
        backbone: the model.
        settings: what is measured.
        encoder: of sentences, or where it is; the default one when None.
        keys_folder: where keys of paragraphs are kept for the next time.
    """

    name = "temperature"

    def __init__(
        self,
        questions: Sequence[Question],
        everything: Sequence[Question],
        backbone: Backbone,
        settings: TemperatureSettings | None = None,
        encoder: Encoder | str | None = None,
        keys_folder: Path | None = None,
    ) -> None:
        self._settings = settings or TemperatureSettings()
        self._everything, self._keys_folder = everything, keys_folder
        self._encoder = encoder_of(encoder)
        self._codec = codec_named(self._settings.codec)
        temperatures = self._settings.temperatures
        variants = [Variant(f"{temperature:g}", {"temperature": temperature}) for temperature in temperatures]
        choices = {
            **asdict(self._settings),
            "temperatures": list(temperatures),
            "encoder": self._encoder.fingerprint,
            "searched_sha256": ids_sha256(everything),
        }
        against = "1" if 1.0 in temperatures else variants[0].name
        variants = [Variant(BEST, {"temperature": None}), *variants]
        super().__init__(questions, backbone, variants, against, choices, free=self._settings.free)

    @cached_property
    def _paragraphs(self) -> Paragraphs:
        return Paragraphs(self._everything, encoder=self._encoder, keys_folder=self._keys_folder)

    def given(self, question: Question) -> Iterator[Given]:
        """The best paragraph's state, and the mean of the best few at every temperature."""
        k = self._settings.top_k
        found, scores = self._paragraphs.search(question.question, k)
        if self._settings.context == "gold" and question.context not in found:
            found, scores = [question.context, *found[: k - 1]], [max(scores), *scores[: k - 1]]
        first = question.context if self._settings.context == "gold" else found[0]
        yield Given(self.states.stored(first, self._codec), [first], {"top_weight": 1.0})
        members = [self.states.stored(text, self._codec) for text in found]
        for temperature in self._settings.temperatures:
            made = compose(members, scores, self.backbone.spec, temperature=temperature)
            yield Given(made.state, found, {"top_weight": max(made.weights)})

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """As for all of them, and ``mean_top_weight`` of each row: of the member that weighs most."""
        report = super().report(records)
        for name, row in cast(dict[str, dict[str, Any]], report["rows"]).items():
            row["mean_top_weight"] = float(np.mean([answer["top_weight"] for answer in answers_of(records, name)]))
        return report
