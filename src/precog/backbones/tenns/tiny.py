"""A tiny TENNs-LLM with random weights."""

from pathlib import Path

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.text.tokenizer import MISTRAL_SHA256


def make(name: str, folder: Path, seed: int) -> Path:
    """Write the ``tiny`` preset."""
    save_model(folder, build(TennsConfig.preset("tiny"), seed), name=name, tokenizer_sha256=MISTRAL_SHA256)
    return folder
