"""What kinds of models can be opened, and what each needs and allows."""

from dataclasses import dataclass
from importlib.util import find_spec

_MIB = 1 << 20
_STATE_RULES = ("mean", "mix", "replay")
_BOUND = ("mix", "replay")  # keys and values of attention are bound to their positions


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        name: as a checkpoint names it.
        through: the library that runs it; "" for this project's own.
        extra: of this package that brings the library; "" for none.
        module: of the library, to see whether it is there.
        rules: of composition that its states allow.
        example: a published model.
        example_bytes: of its FP32 state; with attention, after a chunk of 256 tokens.
        grows: whether its states grow with the text, so that only whole chunks are exact at position 0.
    """

    name: str
    through: str
    extra: str
    module: str
    rules: tuple[str, ...]
    example: str
    example_bytes: int
    grows: bool = False

    @property
    def is_available(self) -> bool:
        """Whether its library is installed."""
        return not self.module or find_spec(self.module) is not None

    def to_json(self) -> dict[str, object]:
        """As the command line prints it; every family is exact at FP32, which `precog conform` shows."""
        return {
            "name": self.name,
            "through": self.through or None,
            "extra": self.extra or None,
            "available": self.is_available,
            "exact": True,
            "grows": self.grows,
            "composition_rules": list(self.rules),
            "example": self.example,
            "example_state_bytes": self.example_bytes,
        }


def _hf(name: str, example: str, mib: float, *, grows: bool = False, averages: bool = True) -> Family:
    rules = _STATE_RULES if averages and not grows else _BOUND
    return Family(name, "transformers", "hf", "transformers", rules, example, round(mib * _MIB), grows)


def _gguf(name: str, example: str, mib: float) -> Family:
    return Family(f"{name} (GGUF)", "llama.cpp", "gguf", "xllamacpp", _STATE_RULES, example, round(mib * _MIB))


FAMILIES: tuple[Family, ...] = (
    Family("tenns", "", "", "", ("mean", "concat", "permute", "mix", "replay"), "TENNs-LLM 1.2B", 393_216),
    _hf("mamba", "Mamba 1.4B", 14.25),
    _hf("falcon_mamba", "Falcon-Mamba 7B", 38.0),
    _hf("mamba2", "Mamba-2 1.3B", 98.4),
    _hf("rwkv", "RWKV-4 1.5B", 0.94),
    _hf("xlstm", "xLSTM 7B", 128.25),
    _hf("recurrent_gemma", "RecurrentGemma 2B", 32.7, averages=False),
    _hf("jamba", "Jamba v0.1", 24.6, grows=True),
    _hf("bamba", "Bamba 9B", 124.0, grows=True),
    _hf("falcon_h1", "Falcon-H1 7B", 96.9, grows=True),
    _hf("zamba2", "Zamba2 2.7B", 161.2, grows=True),
    _hf("nemotron_h", "Nemotron-H 8B", 106.8, grows=True),
    _hf("granitemoehybrid", "Granite 4.0 H micro", 77.8, grows=True),
    _hf("qwen3_next", "Qwen3-Next 80B-A3B", 87.4, grows=True),
    _hf("olmo_hybrid", "OLMo Hybrid 7B", 114.1, grows=True),
    _hf("lfm2", "LFM2 1.2B", 6.1, grows=True),
    Family("rwkv7", "rwkv", "rwkv", "rwkv", _STATE_RULES, "RWKV-7 1.5B", round(12.4 * _MIB)),
    _gguf("mamba", "Mamba 130M", 2.67),
    _gguf("mamba2", "Mamba-2 130M", 18.5),
    _gguf("rwkv6", "RWKV-6 1.6B", 12.4),
    _gguf("rwkv7", "RWKV-7 1.5B", 12.4),
)
