"""Folders of tiny random models of the transformers library."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"

from tiny_folders import tiny_mamba, write_byte_level_tokenizer, write_folder  # offline before it loads


@pytest.fixture
def folder_of(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model of any architecture: ``folder_of(model, name=…, tokenizer=…)``."""

    def make(
        model: torch.nn.Module, name: str = "tiny", tokenizer: Callable[..., None] = write_byte_level_tokenizer
    ) -> Path:
        return write_folder(tmp_path / name, model, tokenizer)

    return make


@pytest.fixture
def mamba_folder(folder_of: Callable[..., Path]) -> Path:
    """A Mamba whose states matter, with a byte-level tokenizer."""
    return folder_of(tiny_mamba(), "tiny-mamba")
