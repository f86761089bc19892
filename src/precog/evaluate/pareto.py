"""Answers against bytes: codecs and subsets of layers, each with each (paper Table 6 and its storage claims)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from precog.backbones.protocol import Backbone
from precog.errors import UsageError
from precog.evaluate.altered import AlteredStates, Given, Variant
from precog.evaluate.experiment import Record
from precog.evaluate.squad_data import Question
from precog.state import codec_named

__all__ = ["Pareto", "ParetoSettings", "mark_front"]

CODECS = ("fp16", "int8", "int4", "int4-rot")


@dataclass(frozen=True)
class ParetoSettings:
    """What is measured.

    Attributes:
        codecs: names of codecs; the others are compared with the first, all layers kept.
        layers: names of layer subsets; all, and the lower three quarters, half and quarter when empty.
        free: decode freely instead of grounded.
        seed: that the questions were drawn with.
    """

    codecs: tuple[str, ...] = CODECS
    layers: tuple[str, ...] = ()
    free: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.codecs:
            codec_named(name)
        for option, given in (("--codecs", self.codecs), ("--layers", self.layers)):
            if len(set(given)) != len(given) or (option == "--codecs" and not given):
                raise UsageError(f"{option} names one twice, or none", given=", ".join(given) or "none")


class Pareto(AlteredStates):
    """F1 against bytes on SQuAD, the question's own paragraph given.

    Args:
        questions: that are asked.
        backbone: the model.
        settings: what is measured.

    Raises:
        UsageError: a subset's name is unknown, or asks for layers that the model does not have.
    """

    name = "pareto"

    def __init__(
        self, questions: Sequence[Question], backbone: Backbone, settings: ParetoSettings | None = None
    ) -> None:
        settings = settings or ParetoSettings()
        spec = backbone.spec
        lower = (f"bottom:{max(1, round(spec.layers * share))}" for share in (0.75, 0.5, 0.25))
        names = dict.fromkeys(("all", *(settings.layers or (() if spec.grows else lower))))
        self._pairs = [(codec_named(codec), spec.kept_layers(name)) for codec in settings.codecs for name in names]
        variants = [
            Variant(
                f"{codec.name} {subset.name}",
                {
                    "codec": codec.name,
                    "layers": subset.name,
                    "num_layers": len(subset.indices),
                    "state_bytes": codec.encoded_bytes(spec, subset),
                },
            )
            for codec, subset in self._pairs
        ]
        choices = {**asdict(settings), "codecs": list(settings.codecs), "layers": list(names)}
        choices["codec"] = settings.codecs[0]
        super().__init__(questions, backbone, variants, f"{settings.codecs[0]} all", choices, free=settings.free)

    def given(self, question: Question) -> Iterator[Given]:
        """The paragraph's state through each codec, with each subset of layers."""
        exact = self.states.exact(question.context)
        for codec, subset in self._pairs:
            yield Given(codec.rounded(exact, self.backbone.spec, subset), [question.context])

    def report(self, records: Sequence[Record]) -> dict[str, object]:
        """As for all of them; ``on_front`` of a row: no other has a better F1 in as few bytes, or as good in fewer."""
        report = super().report(records)
        mark_front(cast(dict[str, dict[str, Any]], report["rows"]))
        return report


def mark_front(rows: Mapping[str, dict[str, Any]]) -> None:
    """Says of each row, with ``f1`` and ``state_bytes``, whether it is ``on_front``: see `Pareto.report`."""
    for row in rows.values():
        row["on_front"] = not any(
            other["f1"] >= row["f1"]
            and other["state_bytes"] <= row["state_bytes"]
            and (other["f1"], other["state_bytes"]) != (row["f1"], row["state_bytes"])
            for other in rows.values()
        )
