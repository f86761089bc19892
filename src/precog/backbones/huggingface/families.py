"""Which architectures of transformers have a recurrent state that can be stored, and who reads on from it."""

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from torch import nn
from transformers import PretrainedConfig

from precog.backbones.hosted.runtime import Runtime
from precog.errors import ModelError


class RuntimeMaker(Protocol):
    """Makes a runtime of a loaded causal language model, in eval mode on its device, and its configuration."""

    def __call__(self, model: nn.Module, config: PretrainedConfig) -> Runtime:
        """The runtime."""
        ...


# model_type → module of this package and class in it
FAMILIES: dict[str, tuple[str, str]] = {
    "mamba": ("mamba", "MambaRuntime"),
    "falcon_mamba": ("mamba", "MambaRuntime"),
    "mamba2": ("mamba2", "Mamba2Runtime"),
    "rwkv": ("rwkv", "RwkvRuntime"),
    "xlstm": ("xlstm", "XlstmRuntime"),
    "recurrent_gemma": ("recurrent_gemma", "RecurrentGemmaRuntime"),
    "jamba": ("hybrid", "HybridRuntime"),
    "bamba": ("hybrid", "HybridRuntime"),
    "falcon_h1": ("hybrid", "HybridRuntime"),
    "zamba2": ("hybrid", "HybridRuntime"),
    "nemotron_h": ("hybrid", "HybridRuntime"),
    "granitemoehybrid": ("hybrid", "HybridRuntime"),
    "qwen3_next": ("hybrid", "HybridRuntime"),
    "olmo_hybrid": ("hybrid", "HybridRuntime"),
    "lfm2": ("hybrid", "HybridRuntime"),
}


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        model_type: as ``config.json`` names it.
        make: makes its runtime.
    """

    model_type: str
    make: RuntimeMaker


def family_of(model_type: str) -> Family:
    """The adapter of an architecture; only its own module is imported.

    Raises:
        ModelError: there is none.
    """
    if model_type not in FAMILIES:
        raise ModelError("this architecture is not supported", given=model_type, expected=", ".join(sorted(FAMILIES)))
    module, name = FAMILIES[model_type]
    return Family(model_type, getattr(import_module(f"precog.backbones.huggingface.{module}"), name))
