"""Which family of models a path belongs to, from what stands there; files never choose code beyond that."""

import json
from pathlib import Path

from precog.errors import ModelError

KINDS = ("tenns", "huggingface", "rwkv7", "gguf")
_SUFFIXES = {".gguf": "gguf", ".pth": "rwkv7", ".safetensors": "rwkv7"}
_RWKV7_TENSOR = "blocks.0.att.r_k"  # what a .safetensors has to hold: the suffix alone names no family
_MOST_HEADER_BYTES = 100_000_000
EXPECTED = (
    "a folder of PRECOG (precog.json), of transformers (config.json with a model_type), an RWKV-7 file (.pth, or "
    "the same tensors as .safetensors), or a llama.cpp file (.gguf)"
)


def kind_of(path: Path) -> tuple[str, Path]:
    """The family of a model, and the folder or file to open: a folder with one model file means that file.

    Raises:
        ModelError: no family keeps its models like this.
    """
    if path.is_file():
        if path.suffix in _SUFFIXES and _may_be_model(path):
            return _SUFFIXES[path.suffix], path
        raise ModelError("this file is no model", given=path, expected=EXPECTED)
    if (path / "precog.json").exists() or (path / "adapter.json").exists():
        return "tenns", path
    if _model_type(path / "config.json"):
        return "huggingface", path
    for suffix, kind in _SUFFIXES.items():
        files = [file for file in sorted(path.glob(f"*{suffix}")) if _may_be_model(file)] if path.is_dir() else []
        if len(files) > 1:
            hint = "give the file itself with --model"
            raise ModelError("several models lie in this folder", given=path, expected=f"one {suffix} file", hint=hint)
        if files:
            return kind, files[0]
    raise ModelError("this folder is no model", given=path, expected=EXPECTED)


def _may_be_model(file: Path) -> bool:
    """False for a ``.safetensors`` of another family; what else a suffix promises is seen when the file is opened."""
    if file.suffix != ".safetensors":
        return True
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(size)) if size <= _MOST_HEADER_BYTES else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and _RWKV7_TENSOR in header


def _model_type(path: Path) -> str:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    found = config.get("model_type") if isinstance(config, dict) else None
    return found if isinstance(found, str) else ""
