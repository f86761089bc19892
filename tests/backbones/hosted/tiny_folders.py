"""Tiny random models as transformers writes them, with a tokenizer trained on the spot; nothing is fetched."""

import json
from collections.abc import Callable
from pathlib import Path

import torch

TEXT = (
    "The lighthouse of Brennick was built in 1871 by Ada Moor. Its lamp burned oil, and later gas.\n"
    "The keeper wrote every ship into a book. In winter, the sea took the lower stairs twice.\n"
    "Who built the lighthouse? Ada Moor built it. When was the lamp changed? In 1903.\n"
)
VOCABULARY = 384


def write_byte_level_tokenizer(folder: Path, *, size: int = 320, text: str = TEXT, **told: object) -> None:
    """GPT-NeoX's kind: byte-level pieces, one token that opens nothing and ends a text."""
    from precog.backbones.huggingface.tiny import write_tokenizer

    write_tokenizer(folder, text=text, size=size, **told)


def write_byte_fallback_tokenizer(folder: Path, **told: object) -> None:
    """Llama's kind: a space before every text, ``▁`` for spaces, a piece for each byte, ``<s>`` before every text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"the lighousBrn.", "th", "▁th"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    model = models.BPE(vocabulary, [("t", "h"), ("▁", "th")], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    values = {
        "bos_token": "<s>",
        "eos_token": {"__type": "AddedToken", "content": "</s>"},
        "tokenizer_class": "PreTrainedTokenizerFast",
        **told,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(values))


def write_folder(
    folder: Path, model: torch.nn.Module, tokenizer: Callable[..., None] = write_byte_level_tokenizer
) -> Path:
    """A folder as the library itself writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer(folder)
    return folder


def tiny_mamba(*, falcon: bool = False, seed: int = 0, **changed: object) -> torch.nn.Module:
    """A Mamba whose states matter: random weights large enough for a text to be heard in every logit."""
    from transformers import FalconMambaConfig, FalconMambaForCausalLM, MambaConfig, MambaForCausalLM

    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 3}
    values = {**sizes, "initializer_range": 0.3, "time_step_min": 0.05, "time_step_max": 0.5, **changed}
    torch.manual_seed(seed)
    if falcon:
        return FalconMambaForCausalLM(FalconMambaConfig(**values)).eval()
    return MambaForCausalLM(MambaConfig(**values)).eval()
