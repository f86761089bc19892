"""How far back a model remembers, measured in two ways, and the chunk length that follows (paper, appendix B).

From the gates, where a model shows them: see `gate_memory` for what is exact about it. By influence on the logits, for
any model: see `influence`. The proposal rests on the second alone, for it is what an answer depends on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from precog.backbones.gates import GatedBackbone
from precog.backbones.protocol import Backbone
from precog.engine.gate_memory import GateMemory, gate_memory
from precog.engine.influence import DISTANCES, Influence, distances_within, influence, influence_horizon
from precog.errors import InputError, UsageError

LEAST_SHARE = 0.5  # of its influence that a fact at the beginning of a chunk must still have at its end
SHORTEST_CHUNK = 64
GATE_TOKENS = 2048

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class HorizonSettings:
    """How a horizon is measured.

    Attributes:
        samples: made facts, each with a stretch of text of its own.
        longest_distance: tokens; the text may end it earlier.
        trained_tokens: the longest chunk the model was trained on; nothing longer is proposed.
        seed: of facts and stretches.
    """

    samples: int = 8
    longest_distance: int = 1024
    trained_tokens: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("samples", 1, 4096),
            ("longest_distance", SHORTEST_CHUNK, DISTANCES[-1]),
            ("trained_tokens", SHORTEST_CHUNK, DISTANCES[-1]),
        ):
            if not least <= getattr(self, name) <= most:
                option = {"longest_distance": "--distance"}.get(name, f"--{name.replace('_', '-')}")
                raise UsageError(f"{option} is out of range", given=getattr(self, name), expected=f"{least} to {most}")


@dataclass(frozen=True)
class Horizon:
    """What was measured of a model.

    Attributes:
        model: its name.
        gates: what its gates say; None for a model that shows none.
        influence: by distance.
        influence_tokens: where the median share falls to 1/e; None where it never did.
        proposed_chunk_tokens: what follows for chunks.
        rule: how it follows, in a sentence.
        settings: what was asked for.
    """

    model: str
    gates: GateMemory | None
    influence: tuple[Influence, ...]
    influence_tokens: float | None
    proposed_chunk_tokens: int
    rule: str
    settings: HorizonSettings

    def to_json(self) -> dict[str, object]:
        """As the command line prints it."""
        layers = self.gates.layers if self.gates is not None else ()
        gate_tokens = None if self.gates is None else round(self.gates.median_tokens, 1)
        influence_tokens = None if self.influence_tokens is None else round(self.influence_tokens, 1)
        return {
            "model": self.model,
            "layers": [
                {"layer": row.layer, **row.tokens.to_json(), "to_one_percent": row.to_one_percent.to_json()}
                for row in layers
            ],
            "beyond_text": None if self.gates is None else round(self.gates.beyond_text, 4),
            "influence": [
                {"distance": row.distance, **row.share.to_json(), "recall": round(row.recall, 4)}
                for row in self.influence
            ],
            "horizon_tokens": {"gates": gate_tokens, "influence": influence_tokens},
            "proposed_chunk_tokens": self.proposed_chunk_tokens,
            "rule": self.rule,
            "seed": self.settings.seed,
            "samples": self.settings.samples,
        }


def measure_horizon(
    backbone: Backbone, text_ids: Sequence[int], settings: HorizonSettings, on_progress: OnProgress | None = None
) -> Horizon:
    """Measure both horizons of a model on a text.

    Args:
        backbone: any; gates are measured where it shows them.
        text_ids: ids of a text, without boundaries.
        settings: how much of it.
        on_progress: told tokens read so far, and tokens to read.

    Raises:
        InputError: the text is shorter than 64 tokens.
        ModelError: a logit is not finite.
    """
    if len(text_ids) < SHORTEST_CHUNK:
        given, expected = f"{len(text_ids)} tokens", f"at least {SHORTEST_CHUNK}"
        raise InputError("the text is too short to measure a memory on", given=given, expected=expected)
    told = on_progress or (lambda done, total: None)
    stretch = list(text_ids[:GATE_TOKENS]) if isinstance(backbone, GatedBackbone) else []
    furthest = distances_within(settings.longest_distance, len(text_ids))[-1]
    total = len(stretch) + 2 * settings.samples * furthest
    told(0, total)
    gates = None
    if isinstance(backbone, GatedBackbone):
        gates = gate_memory(backbone.gates([*backbone.opening, *stretch]))
        told(len(stretch), total)
    rows = influence(
        backbone,
        text_ids,
        num_samples=settings.samples,
        longest_distance=settings.longest_distance,
        seed=settings.seed,
        on_progress=lambda done: told(len(stretch) + done, total),
    )
    return Horizon(
        backbone.card.name,
        gates,
        rows,
        influence_horizon(rows),
        propose_chunk_tokens(rows, settings.trained_tokens),
        f"the longest of {SHORTEST_CHUNK}, 96, 128, 192, 256, … tokens, at most the {settings.trained_tokens} trained "
        f"on, up to which the median share of influence is at least {LEAST_SHARE:g}; {SHORTEST_CHUNK} where none is",
        settings,
    )


def propose_chunk_tokens(rows: Sequence[Influence], trained_tokens: int) -> int:
    """The longest chunk at whose end a fact at its beginning still has `LEAST_SHARE` of its influence.

    Args:
        rows: influence by ascending distance.
        trained_tokens: the longest chunk the model was trained on.

    Returns:
        64, 96, 128, 192, 256, … at most ``trained_tokens``, at most the longest distance measured, at least 64. At
        every distance up to it the median share is at least `LEAST_SHARE`, unless it is 64.
    """
    proposed = SHORTEST_CHUNK
    for row in rows:
        if row.share.q50 < LEAST_SHARE or row.distance > trained_tokens:
            break
        proposed = max(proposed, row.distance)
    return proposed
