"""Tiny random models of every architecture as folders of the library, with a tokenizer trained on the spot."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from precog.backbones.huggingface.folder import quiet
from precog.backbones.huggingface.hybrid_tiny import SIZES as HYBRIDS
from precog.backbones.huggingface.hybrid_tiny import tiny_hybrid

TEXT = (
    "The lighthouse of Brennick was built in 1871 by Ada Moor. Its lamp burned oil, and later gas.\n"
    "The keeper wrote every ship into a book. In winter, the sea took the lower stairs twice.\n"
    "Who built the lighthouse? Ada Moor built it. When was the lamp changed? In 1903.\n"
)
END = "<|endoftext|>"
PIECES = 320
VOCABULARY = 384  # more than the tokenizer has, as in most published models

_MAMBA = {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 3}
_STEPS = {"time_step_min": 0.05, "time_step_max": 0.5}
_SIZES: Mapping[str, Mapping[str, object]] = {
    "mamba": {**_MAMBA, **_STEPS},
    "falcon_mamba": {**_MAMBA, **_STEPS},
    "mamba2": {**_MAMBA, **_STEPS, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 16},
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 4, "context_length": 256},
    "xlstm": {"hidden_size": 64, "num_hidden_layers": 3, "num_heads": 4, "chunk_size": 16},
    "recurrent_gemma": {
        "hidden_size": 32,
        "intermediate_size": 64,
        "lru_width": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "attention_window_size": 2048,
    },
}
_SPREAD = 0.2  # of weights: large enough for a text to be heard in every score


def make(name: str, folder: Path, seed: int) -> Path:
    """Write a model and a tokenizer; see `tiny_model`."""
    folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        tiny_model(name, seed=seed).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def tiny_model(name: str, *, seed: int = 0) -> PreTrainedModel:
    """A random causal language model in FP32 and eval mode, the same for the same seed.

    Args:
        name: a ``model_type``.
        seed: of its weights.
    """
    if name in HYBRIDS:
        return tiny_hybrid(name, vocab_size=VOCABULARY, seed=seed)
    config = CONFIG_MAPPING[name](vocab_size=VOCABULARY, **_SIZES[name])
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        for key, weight in model.named_parameters():
            if not key.endswith(("A_log", "dt_bias", "dt_proj.bias")):
                weight.add_(_SPREAD * torch.randn_like(weight))
    return model


def write_tokenizer(folder: Path, *, text: str = TEXT, size: int = PIECES, **told: object) -> None:
    """GPT-NeoX's kind: byte-level pieces, and one token that opens nothing and ends a text.

    Args:
        folder: where its two files go.
        text: to learn pieces from.
        size: ids.
        told: more for ``tokenizer_config.json``.
    """
    pieces = Tokenizer(models.BPE())
    pieces.normalizer = normalizers.NFC()
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces.train_from_iterator([text] * 4, trainer)
    pieces.save(str(folder / "tokenizer.json"))
    values = {"eos_token": END, "tokenizer_class": "PreTrainedTokenizerFast", **told}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
