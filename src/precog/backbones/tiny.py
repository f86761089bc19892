"""Tiny models with random weights, of every architecture, made on the spot: what `precog conform --tiny` looks at."""

from importlib import import_module
from pathlib import Path

from precog.backbones.supported import FAMILIES
from precog.errors import UsageError

TRANSFORMERS = tuple(family.name for family in FAMILIES if family.through == "transformers")
LLAMA_CPP = ("gguf-mamba", "gguf-mamba2", "gguf-rwkv6", "gguf-rwkv7")
NAMES = ("tenns", *TRANSFORMERS, "rwkv7", *LLAMA_CPP)


def make_tiny(name: str, folder: Path, seed: int = 0) -> Path:
    """Write a tiny model of an architecture: the path to open it by.

    Args:
        name: one of `NAMES`.
        folder: where; made if it does not exist.
        seed: of its weights.

    Raises:
        UsageError: unknown architecture.
        ModelError: the library that runs it is not installed.
    """
    if name not in NAMES:
        raise UsageError("--tiny: no such architecture", given=name, expected=", ".join(("all", *NAMES)))
    folder.mkdir(parents=True, exist_ok=True)
    room = "huggingface" if name in TRANSFORMERS else name.partition("-")[0]
    made: Path = import_module(f"precog.backbones.{room}.tiny").make(name, folder, seed)
    return made
