"""Theorem 1 of the paper (§4.3, appendix A) as an experiment, with what its proof leaves out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from precog.backbones.protocol import Backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import UsageError
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.averages import measure_averages
from precog.evaluate.theorem.convolution import measure_convolution
from precog.evaluate.theorem.elsewhere import diagonal_backbone, in_another_process
from precog.evaluate.theorem.exactness import marks_of, measure_exactness
from precog.evaluate.theorem.passage import random_passages, real_passages
from precog.evaluate.theorem.positions import measure_placeless, measure_rotary
from precog.evaluate.theorem.report import summed_up
from precog.evaluate.theorem.sufficiency import ReadElsewhere, measure_sufficiency
from precog.text.sample import sample_text

LEAST_TOKENS = 4


@dataclass(frozen=True)
class TheoremSettings:
    """How much is measured.

    Attributes:
        texts: passages of each kind, random and real.
        chunk_tokens: tokens of a context.
        question_tokens: tokens of a question, the boundary token counted.
        seed: of random tokens and random models.
        another_process: whether states are also read from in another process.
    """

    texts: int = 3
    chunk_tokens: int = 128
    question_tokens: int = 128
    seed: int = 0
    another_process: bool = True

    def __post_init__(self) -> None:
        least = {"texts": 1, "chunk_tokens": LEAST_TOKENS, "question_tokens": LEAST_TOKENS}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise UsageError(
                    f"{name.replace('_', ' ')}: too few", given=getattr(self, name), expected=f"at least {value}"
                )


QUICK = TheoremSettings(texts=1, chunk_tokens=32, question_tokens=40)


class Theorem:
    """Everything that is measured of Theorem 1 and Proposition 1.

    Items are, of the given model and of a small random one with the paper's diagonal recurrence: exactness per passage
    and h₀ (zero, or a state that has read something); sufficiency of one real passage; and of the same passage what
    the states allow: the convolution's boundary, where the model is a TENNs-LLM; placelessness, where no attention
    gives its states positions; averages. Of a rotary transformer, one random model per text.

    Args:
        backbone: the given model, computing at FP32.
        text: that real passages are cut from; the sample that comes with the project when None.
        settings: how much is measured.
        model: the given model's files; without them its states are read from in this process only.

    Attributes:
        backbones: ``given`` and ``diagonal``.
        items: part and model of each item.

    Raises:
        InputError: the text is too short.
    """

    name = "theorem"

    def __init__(
        self,
        backbone: Backbone,
        text: str | None = None,
        settings: TheoremSettings | None = None,
        *,
        model: Path | None = None,
    ) -> None:
        chosen = settings or TheoremSettings()
        text = sample_text() if text is None else text
        self.backbones: dict[str, Backbone] = {"given": backbone, "diagonal": diagonal_backbone(chosen.seed)}
        self._chosen, self._paths = chosen, {"given": model, "diagonal": None}
        self._measures: list[Callable[[], Record]] = []
        self.items: list[tuple[str, str]] = []
        for name, measured in self.backbones.items():
            self._add(name, measured, text)
        for i in range(chosen.texts):
            self._item("rotary", "transformer", partial(measure_rotary, chosen.seed + i))
        self.settings: Mapping[str, object] = {
            **asdict(chosen),
            "text_sha256": sha256(text.encode()).hexdigest(),
            "model": backbone.card.name,
            "fingerprint": backbone.fingerprint,
            "dtype": backbone.encoding_dtype,
            "diagonal_fingerprint": self.backbones["diagonal"].fingerprint,
            "has_files": model is not None,
        }

    def __len__(self) -> int:
        return len(self._measures)

    def measure(self, number: int) -> Record:
        """Measure one item; its record says of which ``part`` and ``model`` it is."""
        part, model = self.items[number]
        return {"part": part, "model": model, **self._measures[number]()}

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """The JSON object of ``precog eval theorem``, see `summed_up`."""
        return summed_up(records, self.settings)

    def _item(self, part: str, model: str, measure: Callable[[], Record]) -> None:
        self.items.append((part, model))
        self._measures.append(measure)

    def _add(self, name: str, backbone: Backbone, text: str) -> None:
        chosen = self._chosen
        sizes = (chosen.texts, chosen.chunk_tokens, chosen.question_tokens)
        real = real_passages(backbone, text, *sizes)
        marks = marks_of(chosen.question_tokens)
        for passage in (*random_passages(backbone, *sizes, chosen.seed), *real):
            for from_nothing in (True, False):
                measure = partial(measure_exactness, backbone, passage, from_nothing=from_nothing, marks=marks)
                self._item("exactness", name, measure)
        one = real[0]
        self._item("sufficiency", name, partial(measure_sufficiency, backbone, one, self._elsewhere(name, backbone)))
        if isinstance(backbone, TennsBackbone) and backbone.encoding_dtype == "float32":
            self._item("convolution", name, partial(measure_convolution, backbone, one))
        if not backbone.spec.grows:  # keys and values of attention do have positions
            self._item("placeless", name, partial(measure_placeless, backbone, one))
        if backbone.spec.averages:
            self._item("averages", name, partial(measure_averages, backbone, one))

    def _elsewhere(self, name: str, backbone: Backbone) -> ReadElsewhere | None:
        if not self._chosen.another_process or (name == "given" and self._paths[name] is None):
            return None
        return in_another_process(self._paths[name], self._chosen.seed, str(backbone.device))
