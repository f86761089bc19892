"""The shape of a TENNs-LLM: a frozen, strict configuration, with presets kept as data files.

Symbols of paper §3 and Table 1: d = width, N = inner, G = groups, M = 8G modes, L = layers.
"""

import dataclasses
import json
from importlib import resources
from typing import Any, Literal, get_args

from precog.errors import ModelError

MAX_PARAMETERS = 1 << 40  # a number in a damaged file, not a model
MAX_RATE = 10.0
DT_MIN, DT_MAX = 1e-5, 1.0  # below, exp(−0.5·Δ) is exactly 1 in FP32; above, the phase aliases (ERRATA 1)

# Settings younger than the first published model. They are left out of a model's data while they have their defaults,
# so that its fingerprint, and with it every stored state, outlives them; these defaults can therefore never change.
YOUNGER = frozenset({"dt", "dt_low", "dt_high", "decay_rate", "keys", "first_read"})


def _check_kind(name: str, value: object, kind: object) -> None:
    choices = get_args(kind)
    if choices:
        valid = any(type(value) is type(choice) and value == choice for choice in choices)
    else:
        valid = type(value) is kind
    if not valid:
        expected = ", ".join(map(str, choices)) if choices else getattr(kind, "__name__", str(kind))
        raise ModelError(f"config: {name} has no such value", given=repr(value), expected=expected)


@dataclasses.dataclass(frozen=True)
class TennsConfig:
    """Shape and switches of a TENNs-LLM.

    Attributes:
        width: d, reals of a token's residual stream.
        layers: L, number of blocks.
        inner: N, reals inside a block.
        mixer: ``diagonal`` is the paper's recurrence (complex modes, state of 2M = N reals a layer); ``outer`` writes
            the outer product of value channels and coefficients, read by a question-dependent vector.
        groups: G, timescale groups of the diagonal mixer; one Δ each.
        modes_per_group: complex modes per group: 8 (192 KB for the paper's preset) or 16 (384 KB); ERRATA 2.
        frequencies: ω_k of the diagonal mixer: ``pi`` (πk, the paper), ``zero`` or ``learned``.
        readout: ``static`` is y = C n(h); ``question`` is y = C (r ⊙ n(h)) with r computed from the current tokens.
        state_norm: RMSNorm before the readout.
        heads, coefficients, channels: H, K, P of the outer mixer; its state is H·K·P reals a layer.
        bottleneck: width of e, the two-layer gating bottleneck (paper: 256).
        kernel: taps of the causal convolution (paper: 4).
        conv_boundary: ``segment`` (the window never crosses the boundary token; ERRATA 3) or ``carried``.
        dt: ``group`` is one Δ per timescale group (per head of the outer mixer); ``mode`` one per complex mode, for the
            diagonal mixer only (the chunked form of the outer one needs one decay per head).
        dt_low, dt_high: Δ starts log-uniform between them; 0 for the mixer's own (0.001 – 0.1, outer 0.02 – 0.5).
        decay_rate: softplus(α) at the start; 0 for the mixer's own (0.5, outer 0.1).
        keys: of the outer mixer: ``unit`` addresses the memory by unit vectors; ``raw`` by vectors of any length, over
            √K, so that they start at about the same size.
        first_read: of the outer mixer: the read map starts ``random``, or as a copy of the ``write`` map, so that at
            the start a token reads where it would write.
        selective: False freezes Δ and β (the LTI mode, an oracle for tests; ERRATA 4).
        tied: input and output embeddings are one matrix.
        vocabulary: number of token ids.
    """

    width: int
    layers: int
    inner: int
    mixer: Literal["diagonal", "outer"] = "diagonal"
    groups: int = 0
    modes_per_group: Literal[8, 16] = 8
    frequencies: Literal["pi", "zero", "learned"] = "pi"
    readout: Literal["static", "question"] = "static"
    state_norm: bool = True
    heads: int = 0
    coefficients: int = 0
    channels: int = 0
    bottleneck: int = 256
    kernel: int = 4
    conv_boundary: Literal["segment", "carried"] = "segment"
    dt: Literal["group", "mode"] = "group"
    dt_low: float = 0.0
    dt_high: float = 0.0
    decay_rate: float = 0.0
    keys: Literal["unit", "raw"] = "unit"
    first_read: Literal["random", "write"] = "random"
    selective: bool = True
    tied: bool = False
    vocabulary: int = 32000

    def __post_init__(self) -> None:
        for name in ("width", "layers", "inner", "bottleneck", "kernel", "vocabulary"):
            if getattr(self, name) < 1:
                raise ModelError(f"config: {name} is out of range", given=getattr(self, name), expected="at least 1")
        reals = self.vocabulary * self.width + self.layers * self.inner * (self.width + self.bottleneck)
        if reals > MAX_PARAMETERS:
            raise ModelError("config: the model is absurdly large", given=f"about {reals:.1e} parameters")
        if self.mixer == "diagonal":
            # v carries one real input per stored real, so the inner width and the state have the same size
            if self.inner != 2 * self.groups * self.modes_per_group:
                raise ModelError(
                    "config: the diagonal mixer's sizes contradict each other",
                    given=f"inner {self.inner}, groups {self.groups}, modes_per_group {self.modes_per_group}",
                    expected="inner = 2 · groups · modes_per_group",
                )
            if self.keys != "unit" or self.first_read != "random":
                given = f"keys {self.keys}, first_read {self.first_read}"
                raise ModelError("config: the diagonal mixer has no keys", given=given, expected="unit, random")
        else:
            if min(self.heads, self.coefficients, self.channels) < 1 or not self.selective:
                raise ModelError(
                    "config: the outer mixer needs heads, coefficients and channels, and is always selective",
                    given=f"heads {self.heads}, coefficients {self.coefficients}, channels {self.channels}",
                    expected="at least 1 each",
                )
            if self.dt != "group":
                raise ModelError("config: the outer mixer has one Δ per head", given=f"dt {self.dt}", expected="group")
        low, high, rate = self.timescales
        if not (DT_MIN <= low <= high <= DT_MAX and 0 < rate <= MAX_RATE):
            raise ModelError(
                "config: the initial timescales are out of range",
                given=f"dt_low {low}, dt_high {high}, decay_rate {rate}",
                expected=f"{DT_MIN} ≤ dt_low ≤ dt_high ≤ {DT_MAX}, 0 < decay_rate ≤ {MAX_RATE}; 0 for the mixer's own",
            )

    @property
    def state_reals(self) -> int:
        """Reals of recurrent state per layer (S)."""
        return self.inner if self.mixer == "diagonal" else self.heads * self.coefficients * self.channels

    @property
    def decay_groups(self) -> int:
        """Independent timescales Δ per layer: groups or modes of the diagonal mixer, heads of the outer one."""
        if self.mixer == "outer":
            return self.heads
        return self.groups if self.dt == "group" else self.groups * self.modes_per_group

    @property
    def modes_per_dt(self) -> int:
        """Complex modes of the diagonal mixer that share one Δ."""
        return self.modes_per_group if self.dt == "group" else 1

    @property
    def timescales(self) -> tuple[float, float, float]:
        """Lowest and highest Δ and softplus(α) at the start.

        Horizons 1/(Δ·softplus(α)) differ by orders of magnitude: 20 to 2,000 tokens for the diagonal mixer, 20 to 500
        for the outer one, whose few heads must all write.
        """
        low, high, rate = (1e-3, 1e-1, 0.5) if self.mixer == "diagonal" else (2e-2, 5e-1, 0.1)
        return self.dt_low or low, self.dt_high or high, self.decay_rate or rate

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TennsConfig":
        """A configuration from plain data.

        Raises:
            ModelError: a key is unknown or missing, or a value is out of range.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ModelError("config: unknown keys", given=", ".join(unknown), expected=", ".join(sorted(known)))
        for field in dataclasses.fields(cls):
            if field.name in values:
                _check_kind(field.name, values[field.name], field.type)
        try:
            return cls(**values)
        except TypeError as error:
            raise ModelError("config: keys are missing or have the wrong type", given=str(error)) from error

    @classmethod
    def preset(cls, name: str) -> "TennsConfig":
        """A configuration shipped as a data file.

        Raises:
            ModelError: there is no such preset.
        """
        folder = resources.files("precog.backbones.tenns") / "presets"
        path = folder / f"{name}.json"
        if not path.is_file():
            known = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir())
            raise ModelError("no such preset", given=name, expected=", ".join(known))
        return cls.from_dict(json.loads(path.read_text("utf-8")))

    def to_dict(self) -> dict[str, Any]:
        """Plain data: defaults are written out so that a later default cannot change an old model.

        Settings that the first published model did not have are written where they are not at their defaults.
        """
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in YOUNGER or getattr(self, field.name) != field.default
        }
