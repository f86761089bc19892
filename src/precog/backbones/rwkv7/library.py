"""The `rwkv` package, with its switches set, its prints silent, and torch and the environment left as they were.

Imported as it comes it would choose its RWKV-7 by an environment variable, allow TF32 for the whole process, and print.
Its version is held to what was tested: the layout of its weights is no public interface.
"""

import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from precog.backbones.rwkv7.weights import Rwkv7Shape
from precog.errors import ModelError, UsageError

EARLIEST, BEFORE = (0, 8, 28), (0, 8, 33)  # as the extra in pyproject.toml
VOCABULARY = "rwkv_vocab_v20230424.txt"
INSTALL = "pip install 'precog-ssm[rwkv]'"
DTYPES = (torch.float32, torch.bfloat16)
_ENVIRONMENT = {"RWKV_V7_ON": "1", "RWKV_JIT_ON": "1", "RWKV_CUDA_ON": "0"}
_UNSET = ("RWKV_DE_VERSION", "RWKV_DML_ON")
_LOCK = threading.Lock()  # environment and standard output belong to the whole process


@runtime_checkable
class LibraryModel(Protocol):
    """What is used of the package's RWKV-7."""

    def forward(self, idx: list[int], state: list[Tensor], full_output: bool = False) -> tuple[Tensor, list[Tensor]]:
        """Scores and states; the list of states is written over."""
        ...


def package_folder() -> Path:
    """Where the package is, without importing it.

    Raises:
        ModelError: it is not installed, or of a version that was not tested.
    """
    spec = find_spec("rwkv")
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    try:
        found = version("rwkv")
    except PackageNotFoundError:
        locations = []
    if not locations:
        raise ModelError("RWKV-7 needs the package rwkv", hint=f"install it: {INSTALL}")
    numbers = tuple(int(part) if part.isdigit() else -1 for part in found.split(".")[:3])
    if not EARLIEST <= numbers < BEFORE:
        low, high = (".".join(map(str, bound)) for bound in (EARLIEST, BEFORE))
        raise ModelError("this version of rwkv was not tested", given=found, expected=f">={low},<{high}", hint=INSTALL)
    return Path(locations[0])


def model_of(weights: dict[str, Tensor], shape: Rwkv7Shape, dtype: torch.dtype) -> LibraryModel:
    """The package's model over weights that are at hand: its own loader, which reads a file again, is not asked.

    Args:
        weights: as `weights.prepare` made them.
        shape: sizes of the model.
        dtype: of the weights.

    Raises:
        ModelError: the package is missing, was not tested, or was imported before without RWKV-7.
        UsageError: it does not compute in this dtype.
    """
    package_folder()
    if dtype not in DTYPES:
        given = str(dtype).removeprefix("torch.")
        raise UsageError("RWKV-7 is not computed in this dtype", given=given, expected="float32, bfloat16")
    with _LOCK, _prepared(), torch.no_grad():
        module = import_module("rwkv.model")
        if not hasattr(module, "RWKV_x070"):
            hint = "set RWKV_V7_ON=1 before rwkv is imported"
            raise ModelError("rwkv was imported before without its RWKV-7", hint=hint)

        held = {
            "z": weights,
            "n_layer": shape.layers,
            "n_embd": shape.width,
            "n_head": shape.heads,
            "head_size": shape.head_size,
        }

        def begin(model: torch.jit.ScriptModule) -> None:
            torch.jit.ScriptModule.__init__(model)
            model.eval()
            for name, value in held.items():
                setattr(model, name, value)

        made: LibraryModel = type("Rwkv7", (module.RWKV_x070,), {"__init__": begin})()
    return made


@contextmanager
def _prepared() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (*_ENVIRONMENT, *_UNSET)}
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    benchmark, convolutions, products = cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32
    for name in _UNSET:
        os.environ.pop(name, None)
    os.environ.update(_ENVIRONMENT)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
            yield
    finally:
        cudnn.benchmark, cudnn.allow_tf32, matmul.allow_tf32 = benchmark, convolutions, products
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
