"""Which architectures of transformers have a recurrent state that can be stored, and who reads on from it."""

from importlib import import_module

from transformers import PretrainedConfig, PreTrainedModel

from precog.backbones.hosted.runtime import Runtime

# model_type → module of this package and class in it, made from a loaded causal language model and its configuration
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


def runtime_of(model: PreTrainedModel, config: PretrainedConfig) -> Runtime:
    """The model as a function of states; of the adapters, only its own is imported.

    Args:
        model: a causal language model in eval mode, on its device.
        config: its configuration, of a ``model_type`` of the table.
    """
    module, name = FAMILIES[config.model_type]
    made: Runtime = getattr(import_module(f"precog.backbones.huggingface.{module}"), name)(model, config)
    return made
