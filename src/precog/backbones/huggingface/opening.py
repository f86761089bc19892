"""Opens a folder of the transformers library as a backbone; without the library, says which extra brings it."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from precog.backbones.card import ModelCard
from precog.backbones.template import Template
from precog.errors import ModelError, UsageError
from precog.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from precog.backbones.hosted.backbone import HostedBackbone

CHUNK_TEMPLATE = "{chunk}"
QUESTION_TEMPLATE = "\n\nQuestion: {question}\nAnswer:"
TESTED = ((5, 15), (5, 25))  # releases from the first up to, but not including, the second
HINT = "pip install 'precog-ssm[hf]'"


def open_model(
    path: Path, *, encode_mode: str, device: torch.device, dtype: torch.dtype, template: Template
) -> "HostedBackbone":
    """A model of a folder with ``config.json``, ``*.safetensors`` and ``tokenizer.json``.

    Raises:
        ModelError: transformers is not installed or of an untested version, the folder is damaged or incomplete, or
            its architecture has no recurrent state or none that can be continued.
        UsageError: states are FP32, and the dtype is wider.
    """
    check_library(path)
    if dtype == torch.float64:
        raise UsageError("a model of transformers has states in FP32", given="float64", expected="float32 or bfloat16")
    from precog.backbones.hosted.backbone import HostedBackbone
    from precog.backbones.huggingface.families import runtime_of
    from precog.backbones.huggingface.folder import Folder
    from precog.backbones.huggingface.tokenizer import FolderTokenizer

    folder = Folder.read(path)
    tokenizer = FolderTokenizer(path, folder.config)
    model = folder.load(device, dtype)
    card = ModelCard(
        name=folder.name,
        tokenizer_sha256=tokenizer.sha256,
        weights_sha256=folder.weights_sha256(),
        config_sha256=folder.config_sha256(),
        backbone="huggingface",
        boundary_id=tokenizer.boundary_id,
        chunk_template=CHUNK_TEMPLATE if template.chunk is None else template.chunk,
        question_template=QUESTION_TEMPLATE if template.question is None else template.question,
    )
    return HostedBackbone(
        runtime_of(model, model.config),
        card,
        dict(folder.meaning()),
        tokenizer,
        start_ids=tokenizer.start_ids,
        encode_mode=encode_mode,
    )


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a model's folder, without its weights.

    Raises:
        ModelError: as `open_model`.
    """
    check_library(path)
    from precog.backbones.huggingface.folder import Folder
    from precog.backbones.huggingface.tokenizer import FolderTokenizer

    return FolderTokenizer(path, Folder.read(path).config)


def check_library(path: Path) -> None:
    """Refuses a model where the library is missing, of a release that nobody has run, or does not start.

    Raises:
        ModelError: which of them it is.
    """
    try:
        found = version("transformers")
    except PackageNotFoundError as error:
        raise ModelError("this model needs the transformers library", given=path, hint=HINT) from error
    check_version(found)
    try:
        import_module("transformers")
    except ImportError as error:  # it checks the releases of its own dependencies
        message = f"the transformers library does not start: {' '.join(str(error).split())}"
        raise ModelError(message, given=f"transformers {found}", hint=HINT) from error


def check_version(found: str) -> None:
    """Refuses releases that nobody has run: several of them lost states without a word.

    Raises:
        ModelError: it is older or newer than those that were tested.
    """
    numbers = tuple(int(part) if part.isdigit() else 0 for part in found.split(".")[:2])
    first, beyond = TESTED
    if not first <= numbers < beyond:
        expected = f"at least {first[0]}.{first[1]}, below {beyond[0]}.{beyond[1]}"
        raise ModelError("this release of transformers is not tested", given=found, expected=expected, hint=HINT)
