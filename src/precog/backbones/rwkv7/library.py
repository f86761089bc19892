"""The `rwkv` package, with its switches set, its prints silent, and torch and the environment left as they were.

Imported as it comes it would choose its RWKV-7 by an environment variable, allow TF32 for the whole process, and print.
Its version is held to what was tested: the layout of its weights is no public interface.
"""

import io
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from precog.errors import ModelError, UsageError

EARLIEST, BEFORE = (0, 8, 28), (0, 8, 33)  # as the extra in pyproject.toml
VOCABULARY = "rwkv_vocab_v20230424.txt"
INSTALL = "pip install 'precog-ssm[rwkv]'"
_STRATEGIES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
_ENVIRONMENT = {"RWKV_V7_ON": "1", "RWKV_JIT_ON": "1", "RWKV_CUDA_ON": "0"}
_UNSET = ("RWKV_DE_VERSION", "RWKV_DML_ON", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
_LOCK = threading.Lock()  # environment and standard output belong to the whole process


@runtime_checkable
class LibraryModel(Protocol):
    """What is used of the package's RWKV-7.

    Attributes:
        z: weights by name, matrices as [inputs, outputs], the embedding normalised.
    """

    z: dict[str, Tensor]

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


def load(path: Path, tensors: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype) -> LibraryModel:
    """The package's model of a file.

    Args:
        path: the file; one that is no ``.pth`` is copied to one for as long as the package reads it.
        tensors: what `weights.read_tensors` found there.
        device: where it computes.
        dtype: in which dtype.

    Raises:
        ModelError: the package is missing, was not tested, or was imported before without RWKV-7.
        UsageError: it does not compute in this dtype.
    """
    package_folder()
    if dtype not in _STRATEGIES:
        given = str(dtype).removeprefix("torch.")
        raise UsageError("RWKV-7 is not computed in this dtype", given=given, expected="float32, bfloat16")
    with _LOCK, _as_pth(path, tensors) as file, _prepared(), torch.no_grad():
        module = import_module("rwkv.model")
        if not hasattr(module, "RWKV_x070"):
            hint = "set RWKV_V7_ON=1 before rwkv is imported"
            raise ModelError("rwkv was imported before without its RWKV-7", hint=hint)
        model: LibraryModel = module.RWKV_x070(str(file.with_suffix("")), f"{device} {_STRATEGIES[dtype]}")
    return model


@contextmanager
def _as_pth(path: Path, tensors: Mapping[str, Tensor]) -> Iterator[Path]:
    if path.suffix == ".pth":
        yield path
        return
    with TemporaryDirectory(prefix="precog-rwkv7-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "model.pth"
        try:
            torch.save(dict(tensors), file)
        except (OSError, RuntimeError) as error:
            hint = "set TMPDIR to a place with more room"
            raise ModelError(
                f"an RWKV-7 file cannot be copied for the package: {error}", given=path, hint=hint
            ) from error
        yield file


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
