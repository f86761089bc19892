"""What kind of model a GGUF file holds, found out by another process.

llama.cpp ends its process on some damaged vocabularies. Here that ends a child, and becomes one line.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

from precog.backbones.gguf.library import STOPPED, Library, load_library
from precog.errors import ModelError

_MAGIC = b"GGUF"
_TEXT_BYTES = 1 << 16
_RUN = "import sys; from precog.backbones.gguf.probe import answer; answer(sys.argv[1])"


def metadata(library: Library, handle: int, key: str) -> str:
    """A text, number or truth value of a file's metadata, as text; empty where it has none."""
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    size = library.functions.llama_model_meta_val_str(handle, key.encode(), buffer, _TEXT_BYTES)
    return buffer.value.decode(errors="replace") if size >= 0 else ""


def load_file(library: Library, path: Path, *, vocab_only: bool, gpu_layers: int = 0) -> int:
    """Have llama.cpp open a file; whoever asks frees the handle.

    Raises:
        ModelError: it cannot.
    """
    params = library.model_params()
    params.vocab_only, params.n_gpu_layers = vocab_only, gpu_layers
    library.log.clear()
    handle: int | None = library.functions.llama_model_load_from_file(bytes(path), params)
    if not handle:
        raise ModelError(f"llama.cpp cannot open this file: {library.log.reason}", given=path)
    return handle


def answer(name: str) -> None:
    """What the child does: open the vocabulary and print one JSON object."""
    try:
        library = load_library()
        handle = load_file(library, Path(name), vocab_only=True)
        found = {
            "architecture": metadata(library, handle, "general.architecture"),
            "recurrent": bool(library.functions.llama_model_is_recurrent(handle)),
            "hybrid": bool(library.functions.llama_model_is_hybrid(handle)),
        }
    except ModelError as error:
        found = {"error": error.message}
    sys.stdout.write(json.dumps(found) + "\n")


def architecture_of(path: Path) -> str:
    """The architecture of a file with a pure recurrent model.

    Raises:
        ModelError: it is no GGUF file, it is damaged, or its model is hybrid or has no recurrent state.
    """
    _check_magic(path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", _RUN, str(path)], capture_output=True, env=environment, stdin=subprocess.DEVNULL
    )
    try:
        found = json.loads(child.stdout.splitlines()[-1])
    except (ValueError, IndexError) as error:
        said = " ".join(child.stderr.decode(errors="replace").split())
        reason = said.partition(STOPPED)[2] or said or "it gave no reason"
        message = f"llama.cpp breaks down over this file, it may be damaged: {reason}"
        raise ModelError(message, given=path) from error
    if "error" in found:
        raise ModelError(found["error"], given=path)
    name = str(found["architecture"])
    if found["hybrid"]:
        hint = "use its checkpoint with transformers: pip install 'precog-ssm[hf]'"
        raise ModelError("hybrid models in GGUF are not supported", given=f"{path} ({name})", hint=hint)
    if not found["recurrent"]:
        expected = "a recurrent model: mamba, mamba2, rwkv6, rwkv7"
        raise ModelError("this model has no recurrent state", given=f"{path} ({name})", expected=expected)
    return name


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelError(f"the model cannot be read: {error.strerror}", given=path) from error
    if start != _MAGIC:
        raise ModelError("this is no GGUF file", given=path, expected="a file that begins with GGUF")
