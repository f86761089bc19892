r"""Opens an RWKV-7 file: weights, vocabulary and what its texts look like.

A text opens with id 0, which is between the texts of the World corpora and is what converted models of this family
declare as their first token. A question is asked as in their instruction data, where a blank line parts the turns:
``User: …\n\nAssistant:`` with no space at the end.
"""

from pathlib import Path

import torch

from precog.backbones.card import ModelCard
from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.rwkv7.library import VOCABULARY, model_of, package_folder
from precog.backbones.rwkv7.model import Rwkv7Runtime
from precog.backbones.rwkv7.tokenizer import END_ID, load_world_tokenizer
from precog.backbones.rwkv7.weights import prepare, read_tensors, shape_of
from precog.backbones.template import Template
from precog.backbones.tenns.checkpoint import weights_digest
from precog.errors import ModelError

CHUNK_TEMPLATE = "{chunk}"
QUESTION_TEMPLATE = "\n\nUser: {question}\n\nAssistant:"
VOCABULARY_SIZE = 65_536


def open_model(
    path: Path, *, encode_mode: str, device: torch.device, dtype: torch.dtype, template: Template
) -> HostedBackbone:
    """A backbone of an RWKV-7 ``.pth``, or of a ``.safetensors`` with the same tensors.

    A ``.pth`` is a pickle: it is read by torch's restricted unpickler, and none of its code runs.

    Raises:
        ModelError: the file is damaged, not whole, of another version of RWKV or with another vocabulary; or the
            package rwkv is missing or was not tested in this version.
        UsageError: the dtype is not one the package computes in.
    """
    folder = package_folder()
    tensors = read_tensors(path)
    shape = shape_of(tensors, path)
    if shape.vocabulary != VOCABULARY_SIZE:
        hint = "only models of the World vocabulary are known; music and other vocabularies are not"
        raise ModelError(
            "this RWKV-7 model has another vocabulary", given=shape.vocabulary, expected=VOCABULARY_SIZE, hint=hint
        )
    tokenizer = load_world_tokenizer(folder / VOCABULARY)
    card = ModelCard(
        name=path.stem,
        tokenizer_sha256=tokenizer.sha256,
        weights_sha256=weights_digest(tensors),
        backbone="rwkv7",
        boundary_id=END_ID,
        chunk_template=CHUNK_TEMPLATE if template.chunk is None else template.chunk,
        question_template=QUESTION_TEMPLATE if template.question is None else template.question,
    )
    weights = prepare(tensors, shape, device, dtype)
    runtime = Rwkv7Runtime(model_of(weights, shape, dtype), weights, shape, device, dtype)
    config: dict[str, object] = {"head_size": shape.head_size}
    return HostedBackbone(runtime, card, config, tokenizer, start_ids=(END_ID,), encode_mode=encode_mode)
