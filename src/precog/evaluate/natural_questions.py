"""Chunk length on Natural Questions: passages from under 100 to over 2,400 tokens (paper Table 8; ERRATA 9)."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from precog.backbones.protocol import Backbone
from precog.encoders import Encoder
from precog.evaluate.experiment import Record
from precog.evaluate.lengths import BINS, bin_of
from precog.evaluate.passages import PassageExperiment, PassageQuestion, check_chunk_tokens, summary, table
from precog.evaluate.squad_data import Question
from precog.evaluate.subset import ids_sha256
from precog.refine.choice import FAST
from precog.refine.study import StudySettings
from precog.state import codec_named
from precog.text.tokenizer import Tokenizer

__all__ = ["NaturalQuestions", "NaturalQuestionsSettings", "sample_per_bin"]


@dataclass(frozen=True)
class NaturalQuestionsSettings:
    """What is measured.

    Attributes:
        chunk_tokens: the longest chunk of the chunked way; 0 for the model's own.
        codec: how states are stored.
        free: decode freely instead of grounded.
        seed: that the questions were drawn with.
    """

    chunk_tokens: int = 0
    codec: str = "fp16"
    free: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        codec_named(self.codec)
        check_chunk_tokens(self.chunk_tokens)


def sample_per_bin(questions: Sequence[Question], tokenizer: Tokenizer, per_bin: int, seed: int) -> list[Question]:
    """At most so many questions of each bin, by ``random.Random(seed).sample`` of their sorted ids, bin by bin."""
    bins: dict[str, dict[str, Question]] = {name: {} for name in BINS}
    for question in questions:
        bins[bin_of(len(tokenizer.encode(question.context)))][question.id] = question
    rng = random.Random(seed)
    chosen = []
    for own in bins.values():
        ids = rng.sample(sorted(own), min(per_bin, len(own)))
        chosen += [own[i] for i in ids]
    return chosen


class NaturalQuestions(PassageExperiment):
    """The experiment.

    Args:
        questions: that are asked.
        everything: the whole file, whose share in each bin is told.
        backbone: the model.
        settings: what is measured.
        encoder: of sentences, or where it is; the default one when None.
        study: how states are studied; None where they are only read.
        quality: of the states, as of `PassageExperiment`.

    Raises:
        UsageError: states of quality ``study`` are wanted, and the model's cannot be averaged.
    """

    name = "nq"

    def __init__(
        self,
        questions: Sequence[Question],
        everything: Sequence[Question],
        backbone: Backbone,
        settings: NaturalQuestionsSettings | None = None,
        encoder: Encoder | str | None = None,
        study: StudySettings | None = None,
        quality: str = FAST,
    ) -> None:
        chosen = settings or NaturalQuestionsSettings()
        self._everything = everything
        items = [PassageQuestion(question.id, question) for question in questions]
        choices = {**asdict(chosen), "ids_sha256": ids_sha256(questions)}
        super().__init__(
            items,
            backbone,
            chosen.codec,
            chosen.chunk_tokens,
            choices,
            encoder,
            free=chosen.free,
            study=study,
            quality=quality,
        )

    @cached_property
    def shares(self) -> dict[str, float]:
        """The share of the whole file in each bin."""
        encode = self.backbone.tokenizer.encode
        counts = Counter(bin_of(len(encode(question.context))) for question in self._everything)
        return {name: counts[name] / len(self._everything) for name in BINS}

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """``bins``, each with its ``share`` of the whole file and `summary`, None where nothing was asked; ``all``."""
        rows = table(records, "bin", BINS)
        bins = {name: {"share": self.shares[name], "measured": row} for name, row in rows.items()}
        return {"bins": bins, "all": summary(records), "n": len(records), **self.settings}
