"""What a memory was made with, and how it routes, keeps and consolidates: written down once, read by every command."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from jaxtyping import Float32

from precog.errors import UsageError
from precog.memory.dial import Dial
from precog.memory.prototypes import Prototypes
from precog.memory.routing import TEMPERATURE, THRESHOLD, Group, Route, route_all
from precog.records import RecordForm, settings_from

GIB = 1 << 30


def check_importance(importance: float) -> None:
    """Refuses an importance that cannot be compared with others.

    Raises:
        UsageError: it is infinite, or no number.
    """
    if not math.isfinite(importance):
        raise UsageError("--importance is out of range", given=importance, expected="a finite number")


@dataclass(frozen=True)
class MemorySettings:
    """Settings of one user's memory.

    Attributes:
        model: folder or name of the model that made the states.
        encoder: where the sentence encoder was found; "" for the default one.
        encoder_fingerprint: of the sentence encoder; another one is refused.
        codec: how states are kept: ``fp32``, ``fp16``, ``int8``, ``int8-rot``, ``int4`` or ``int4-rot``.
        layers: subset of layers whose states are kept.
        chunk_tokens: most tokens of a deposit, header counted; longer turns are cut.
        encoding_dtype: compute dtype the states were made with.
        alpha: weight of a new deposit in a semantic state (Eq. 7), above 0 and at most 1.
        temperature: of routing by seeds (ERRATA 28); sub-clusters that were fitted bring their own.
        threshold: probability below which a deposit goes to the others of its domain.
        dial_a: states kept of a deposit in a sub-cluster of type A: specific, time-critical (Section 5.2).
        dial_b: the same for type B: recurring.
        budget_bytes: that the states of deposits may take; the coldest expire beyond it, their texts stay.
        probes: sub-clusters a question is searched in; 0 for all of them.
        template: what stood around chunks and questions in place of the model's own, as JSON; "" for nothing.
    """

    model: str
    encoder: str
    encoder_fingerprint: str
    codec: str = "fp16"
    layers: str = "all"
    chunk_tokens: int = 256
    encoding_dtype: str = "float32"
    alpha: float = 0.1
    temperature: float = TEMPERATURE
    threshold: float = THRESHOLD
    dial_a: str = "1"
    dial_b: str = "1"
    budget_bytes: int = GIB
    probes: int = 0
    template: str = field(default="", metadata={"later": True})

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise UsageError("--alpha is out of range", given=self.alpha, expected="above 0 and at most 1")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise UsageError("the routing temperature is out of range", given=self.temperature, expected="above 0")
        if not 0 <= self.threshold <= 1:
            raise UsageError("the routing threshold is out of range", given=self.threshold, expected="0 to 1")
        if self.budget_bytes < 0 or self.probes < 0:
            given = f"budget {self.budget_bytes} bytes, {self.probes} probes"
            raise UsageError("a setting of the memory is out of range", given=given, expected="0 or more")
        for text in (self.dial_a, self.dial_b):
            Dial.parse(text)

    @property
    def form(self) -> RecordForm:
        """How its states are kept."""
        return RecordForm(self.codec, self.layers, "once", self.encoding_dtype, self.chunk_tokens)

    def dial_in(self, group: Group, prototypes: Prototypes) -> Dial:
        """How many states a deposit of a sub-cluster keeps, by its type; of no sub-cluster as many as of type B."""
        kinds = {(entry.domain, entry.name): entry.kind for entry in prototypes.subclusters}
        return Dial.parse(self.dial_a if kinds.get(group) == "A" else self.dial_b)

    def temperature_of(self, prototypes: Prototypes) -> float:
        """T of routing by these prototypes."""
        fit = prototypes.history.fit
        return self.temperature if fit is None else fit.temperature

    def route(self, keys: Float32[np.ndarray, "N E"], prototypes: Prototypes) -> list[Route]:
        """Where keys of unit norm go in a memory with these settings and prototypes.

        Raises:
            InputError: they are of another width or norm.
        """
        return route_all(keys, prototypes, temperature=self.temperature_of(prototypes), threshold=self.threshold)

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> "MemorySettings":
        """The settings that a memory keeps.

        Raises:
            DamagedCorpusError: a key is missing, unknown or of another type.
        """
        return settings_from(cls, values, "memory")

    def to_json(self) -> dict[str, object]:
        """Plain data, complete; what older versions do not know is left out where it says nothing."""
        values = asdict(self)
        if not self.template:
            del values["template"]
        return values
