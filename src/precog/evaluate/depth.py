"""Injection depth: the states of some layers only, the others starting empty (paper Table 6)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from precog.backbones.protocol import Backbone
from precog.errors import UsageError
from precog.evaluate.altered import AlteredStates, Given, Variant
from precog.evaluate.squad_data import Question
from precog.state import codec_named

__all__ = ["Depth", "DepthSettings", "paper_shares", "paper_subsets"]


def paper_shares(num_layers: int) -> dict[str, str]:
    """The eight subsets of Table 6 by their share of the layers ▸ their names in a model of another depth.

    A share of a layer is rounded, to one layer at least.
    """
    most, half, quarter = (max(1, round(num_layers * share)) for share in (0.75, 0.5, 0.25))
    return {
        "all": "all",
        "bottom 3/4": f"bottom:{most}",
        "bottom 1/2": f"bottom:{half}",
        "bottom 1/4": f"bottom:{quarter}",
        "top 1/2": f"top:{half}",
        "top 1/4": f"top:{quarter}",
        "alternate": "alternate",
        "none": "none",
    }


def paper_subsets(num_layers: int) -> tuple[str, ...]:
    """The names of the paper's subsets; what comes out twice in a shallow model stands once."""
    return tuple(dict.fromkeys(paper_shares(num_layers).values()))


@dataclass(frozen=True)
class DepthSettings:
    """What is measured.

    Attributes:
        layers: names of layer subsets, see `LayerSubset.parse`; those of the paper when empty. ``all`` is measured in
            any case: the others are compared with it.
        codec: how states are stored.
        free: decode freely instead of grounded, whose mask alone gives something away.
        seed: that the questions were drawn with.
    """

    layers: tuple[str, ...] = ()
    codec: str = "fp16"
    free: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        codec_named(self.codec)
        if len(set(self.layers)) != len(self.layers):
            raise UsageError("--layers names a subset twice", given=", ".join(self.layers))


class Depth(AlteredStates):
    """Injection depth on SQuAD, the question's own paragraph given.

    Args:
        questions: that are asked.
        backbone: the model.
        settings: what is measured.

    Raises:
        UsageError: a subset's name is unknown, or asks for layers that the model does not have; or only all layers of
            its states can be kept.
    """

    name = "depth"

    def __init__(
        self, questions: Sequence[Question], backbone: Backbone, settings: DepthSettings | None = None
    ) -> None:
        settings = settings or DepthSettings()
        spec = backbone.spec
        if spec.grows:
            given, hint = backbone.card.name, "its layers belong to one text: there is no depth to measure"
            raise UsageError("a model with attention cannot go on from some of its layers", given=given, hint=hint)
        names = settings.layers or paper_subsets(spec.layers)
        self._subsets = [spec.kept_layers(name) for name in dict.fromkeys(("all", *names))]
        self._codec = codec_named(settings.codec)
        variants = [
            Variant(
                subset.name,
                {
                    "layers": list(subset.indices),
                    "num_layers": len(subset.indices),
                    "state_bytes": self._codec.encoded_bytes(spec, subset),
                },
            )
            for subset in self._subsets
        ]
        choices = {**asdict(settings), "layers": [subset.name for subset in self._subsets]}
        super().__init__(questions, backbone, variants, "all", choices, free=settings.free)

    def given(self, question: Question) -> Iterator[Given]:
        """The paragraph's state as a store of some layers gives it back."""
        exact = self.states.exact(question.context)
        for subset in self._subsets:
            yield Given(self._codec.rounded(exact, self.backbone.spec, subset), [question.context])
