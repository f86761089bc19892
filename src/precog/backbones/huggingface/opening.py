"""Opens a folder of the transformers library as a backbone; without the library, says which extra brings it."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from precog.backbones.template import Template
from precog.errors import ModelError

if TYPE_CHECKING:
    from precog.backbones.hosted.backbone import HostedBackbone

QUESTION_TEMPLATE = "\n\nQuestion: {question}\nAnswer:"


def open_model(
    path: Path, *, encode_mode: str, device: torch.device, dtype: torch.dtype, template: Template
) -> "HostedBackbone":
    """A model of a folder with ``config.json``, ``*.safetensors`` and a tokenizer.

    Raises:
        ModelError: transformers is not installed or of an untested version, the folder is damaged or incomplete, or
            its architecture has no recurrent state or none that can be continued.
    """
    if find_spec("transformers") is None:
        raise ModelError("this model needs the transformers library", given=path, hint="pip install 'precog-ssm[hf]'")
    raise ModelError("models of transformers cannot be opened yet", given=path)
