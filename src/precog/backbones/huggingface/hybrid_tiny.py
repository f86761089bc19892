"""Tiny random hybrids, one of each architecture, for whoever wants to see that states of them can be trusted."""

from collections.abc import Mapping

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from precog.errors import ModelError

_COMMON = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 16,
}
_DELTA = {
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
SIZES: Mapping[str, Mapping[str, object]] = {
    "jamba": {
        "num_hidden_layers": 4,
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_dt_rank": 4,
        **_EXPERTS,
    },
    "bamba": {"num_hidden_layers": 4, "attn_layer_indices": [1, 3], **_MAMBA2},
    "falcon_h1": {"num_hidden_layers": 3, "head_dim": 8, "mamba_d_ssm": 64, **_MAMBA2},
    "zamba2": {
        "num_hidden_layers": 5,
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba"],
        "num_key_value_heads": 4,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "n_mamba_heads": 8,
        "mamba_ngroups": 1,
        "chunk_size": 16,
        "num_mem_blocks": 1,
        "adapter_rank": 4,
        "use_mem_rope": True,
    },
    "nemotron_h": {
        "layers_block_type": ["mamba", "moe", "attention", "mamba"],
        "head_dim": 8,
        "ssm_state_size": 8,
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "n_groups": 1,
        "conv_kernel": 4,
        "chunk_size": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "moe_shared_expert_intermediate_size": 16,
    },
    "granitemoehybrid": {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "attention", "mamba", "attention"],
        "shared_intermediate_size": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "position_embedding_type": "rope",
        **_MAMBA2,
    },
    "qwen3_next": {
        "head_dim": 8,
        "linear_num_value_heads": 4,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        **_EXPERTS,
        **_DELTA,
    },
    "olmo_hybrid": {"linear_num_value_heads": 2, **_DELTA},
    "lfm2": {
        "num_hidden_layers": 4,
        "layer_types": ["conv", "full_attention", "conv", "conv"],
        "conv_L_cache": 3,
    },
}
_SPREAD = 0.15  # of weights: large enough for a text to be heard in every score


def tiny_hybrid(model_type: str, *, vocab_size: int = 256, seed: int = 0) -> PreTrainedModel:
    """A random model of one architecture, in FP32 and eval mode; the same for the same seed.

    Time steps of Mamba-2 mixers reach from far below the least to far above it, so that bounds on them are met.

    Raises:
        ModelError: there is no hybrid of this name.
    """
    if model_type not in SIZES:
        raise ModelError("no such hybrid", given=model_type, expected=", ".join(SIZES))
    config = CONFIG_MAPPING[model_type](vocab_size=vocab_size, **{**_COMMON, **SIZES[model_type]})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.dim() > 1:
                    weight.normal_(0, _SPREAD)
                elif name.endswith("dt_bias"):
                    weight.copy_(torch.linspace(-9, 1, weight.numel()))
    return model
