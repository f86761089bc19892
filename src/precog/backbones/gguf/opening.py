"""Opens GGUF files: what the registry calls for models of llama.cpp."""

from hashlib import sha256
from pathlib import Path

import torch

from precog.backbones.card import ModelCard
from precog.backbones.gguf.model import LlamaModel
from precog.backbones.gguf.runtime import GgufRuntime
from precog.backbones.gguf.tokenizer import GgufTokenizer
from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.template import Template
from precog.errors import ModelError, UsageError

CHUNK_TEMPLATE = "{chunk}"
QUESTION_TEMPLATE = "\n\nQuestion: {question}\nAnswer:"
_READ_BYTES = 1 << 22
_HEAD_MULTIPLE = 64  # llama.cpp's CPU code of RWKV writes beyond its memory for other heads


def open_model(
    path: Path, *, encode_mode: str, device: torch.device, dtype: torch.dtype, template: Template
) -> HostedBackbone:
    """A backbone of a GGUF file with a pure recurrent model: mamba, mamba2, rwkv6 or rwkv7.

    Args:
        path: of the file.
        encode_mode: how chunks are read.
        device: CPU, or a GPU where this build of llama.cpp can use one; states are in main memory.
        dtype: FP32: weights are used as the file has them, and states are FP32 whatever those are.
        template: text around chunks and questions, instead of the defaults.

    Raises:
        ModelError: llama.cpp is missing or untested; the file is damaged, hybrid, or has no recurrent state.
        UsageError: another dtype.
    """
    if dtype != torch.float32:
        given, hint = str(dtype).removeprefix("torch."), "leave --dtype out"
        raise UsageError("a GGUF file has its own precision", given=given, expected="float32", hint=hint)
    model = LlamaModel(path, use_gpu=device.type != "cpu")
    head = model.metadata(f"{model.architecture}.wkv.head_size")
    if head and int(head) % _HEAD_MULTIPLE:
        raise ModelError("heads of this size are not supported", given=head, expected=f"multiples of {_HEAD_MULTIPLE}")
    digest = _digest(path)
    tokenizer = GgufTokenizer(model, sha256(f"vocabulary of {digest}".encode()).hexdigest())
    runtime = GgufRuntime(model)
    card = ModelCard(
        name=model.metadata("general.name") or path.stem,
        tokenizer_sha256=tokenizer.sha256,
        weights_sha256=digest,
        backbone="gguf",
        boundary_id=tokenizer.boundary_id,
        chunk_template=CHUNK_TEMPLATE if template.chunk is None else template.chunk,
        question_template=QUESTION_TEMPLATE if template.question is None else template.question,
        notes={"architecture": model.architecture, "runtime": model.library.name},
    )
    config: dict[str, object] = {"architecture": model.architecture, "window": runtime.shape.window[1]}
    return HostedBackbone(runtime, card, config, tokenizer, start_ids=tokenizer.opens, encode_mode=encode_mode)


def _digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
