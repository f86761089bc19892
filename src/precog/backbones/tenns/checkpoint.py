"""A TENNs-LLM on disk: config.json, precog.json and safetensors; strict to read, atomic to write, no pickle.

Weights lie in ``model.safetensors`` or, where that would be too large, in ``model-00001-of-0000N.safetensors``. The
digest in precog.json covers every stored tensor, so that a flipped bit is found even where the file still parses.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from precog.backbones.card import PAPER_QUESTION_TEMPLATE, Json, ModelCard
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import BOUNDARY_ID, TennsModel
from precog.backbones.tenns.quantise import SCHEMES, pack, unpack
from precog.backbones.tenns.target import check_one_kind, written
from precog.errors import ModelError

SHARD_BYTES = 47_000_000
CONFIG_FILE, CARD_FILE, WEIGHTS_FILE = "config.json", "precog.json", "model.safetensors"
_SHARD = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")
_SUFFIXES = (".int8", ".int4", ".scale")
UNREADABLE = (OSError, SafetensorError, ValueError, RuntimeError, TypeError, KeyError)
"""What safetensors and torch raise for a file of tensors that they cannot make sense of."""


def reason_of(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """Hex SHA-256 over names, dtypes, shapes and bytes of tensors; how they are spread over files does not count."""

    def digest(name: str) -> bytes:
        tensor = tensors[name].detach().cpu().contiguous()
        head = f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode()
        raw = tensor.flatten().view(torch.uint8).numpy().data if tensor.numel() else b""
        return sha256(head + sha256(raw).digest()).digest()

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        return sha256(b"".join(pool.map(digest, sorted(tensors)))).hexdigest()


def is_matrix(name: str, ndim: int) -> bool:
    """Whether a tensor may be kept in fewer bits: vectors, convolution taps and the timescale projection stay FP32."""
    return ndim == 2 and name.endswith(".weight")


def scheme_of(name: str, ndim: int, quantisation: Mapping[str, str]) -> str:
    """How a tensor is stored in a model of this quantisation."""
    if not is_matrix(name, ndim):
        return "fp32"
    return quantisation["embedding" if name in ("embedding.weight", "head.weight") else "matrices"]


def save_model(
    folder: Path,
    model: TennsModel,
    *,
    name: str,
    tokenizer_sha256: str,
    matrices: str = "fp32",
    embedding: str = "fp32",
    shard_bytes: int = SHARD_BYTES,
    chunk_template: str = "{chunk}",
    question_template: str = PAPER_QUESTION_TEMPLATE,
    decoding: Mapping[str, Json] | None = None,
    chunk_tokens: int = 0,
    notes: Mapping[str, Json] | None = None,
    replace_old: bool = True,
) -> ModelCard:
    """Write a model folder.

    A new folder appears whole or not at all. In one that holds a model written before, or files of other names (a
    weight distribution with its licence), files are replaced one by one, the card last: a mixture is refused when it
    is loaded.

    Args:
        folder: where to.
        model: its weights, in any dtype, on any device.
        name: what people call it.
        tokenizer_sha256: of its tokenizer.
        matrices: how matrices are stored: ``fp32``, ``bf16``, ``int8``, ``int4:32|64|128|channel``.
        embedding: the same for embeddings and output head.
        shard_bytes: no weight file is larger; one tensor is never split.
        chunk_template: text around a chunk.
        question_template: text around a question.
        decoding: settings of grounded decoding that suit this model.
        chunk_tokens: the chunk length that suits it, as `precog horizon` proposes it; 0 for none.
        notes: anything else.
        replace_old: a model written there before is replaced; else nothing may be there.

    Returns:
        The card that was written.

    Raises:
        ModelError: unknown scheme, a tensor larger than a shard, or a chunk length out of range.
        UsageError: the folder holds files of another origin.
        StorageError: the disk is full or refuses.
    """
    quantisation = {"matrices": matrices, "embedding": embedding}
    tensors: dict[str, Tensor] = {}
    for key, tensor in model.state_dict().items():
        for suffix, part in pack(tensor, scheme_of(key, tensor.ndim, quantisation)).items():
            tensors[key + suffix] = part.contiguous()
    card = ModelCard(
        name=name,
        tokenizer_sha256=tokenizer_sha256,
        weights_sha256="",
        boundary_id=BOUNDARY_ID,
        chunk_template=chunk_template,
        question_template=question_template,
        quantisation=quantisation,
        decoding=dict(decoding or {}),
        chunk_tokens=chunk_tokens,
        notes=dict(notes or {}),
    )
    return write_model(folder, model.config, tensors, card, shard_bytes=shard_bytes, replace_old=replace_old)


def write_model(
    folder: Path,
    config: TennsConfig,
    tensors: Mapping[str, Tensor],
    card: ModelCard,
    *,
    shard_bytes: int = SHARD_BYTES,
    replace_old: bool = True,
) -> ModelCard:
    """Write stored tensors as a model folder; `save_model` says how.

    Args:
        folder: where to.
        config: shape of the model.
        tensors: what `pack` made of each weight, by name and suffix.
        card: everything but the digests, which are computed here.
        shard_bytes: no weight file is larger; one tensor is never split.
        replace_old: a model written there before is replaced; else nothing may be there.

    Returns:
        The card that was written.

    Raises:
        ModelError: a tensor is larger than a shard.
        UsageError: the folder holds files of another origin.
        StorageError: the disk is full or refuses.
    """
    config_text = json.dumps(config.to_dict(), indent=1) + "\n"
    digest = weights_digest(tensors)
    card = replace(card, weights_sha256=digest, config_sha256=sha256(config_text.encode()).hexdigest())
    shards = _shards(tensors, shard_bytes)
    with written(folder, "model", replace=replace_old) as temporary:
        for number, shard in enumerate(shards, 1):
            alone = len(shards) == 1
            file = WEIGHTS_FILE if alone else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            save_file(shard, temporary / file, metadata={"format": "pt"})
        (temporary / CONFIG_FILE).write_text(config_text, encoding="utf-8")
        (temporary / CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    return card


def _shards(tensors: Mapping[str, Tensor], shard_bytes: int) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    room = shard_bytes - 65536  # a safetensors header
    for name, tensor in tensors.items():
        if tensor.nbytes > shard_bytes - 65536:
            hint = "store it in fewer bits"
            raise ModelError(
                f"{name} is larger than a file may be", given=tensor.nbytes, expected=shard_bytes, hint=hint
            )
        if tensor.nbytes > room:
            shards.append({})
            room = shard_bytes - 65536
        shards[-1][name] = tensor
        room -= tensor.nbytes
    return shards


def read_card(folder: Path) -> tuple[ModelCard, TennsConfig]:
    """What a model folder says about itself, without its weights.

    Raises:
        ModelError: the folder is no model, or an adapter, too, or a file is damaged.
    """
    check_one_kind(folder)
    texts = {}
    for name in (CARD_FILE, CONFIG_FILE):
        try:
            texts[name] = (folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(
                f"{name} cannot be read",
                given=folder,
                expected="a model folder: config.json, precog.json, model.safetensors",
                hint="--model takes a folder or the name of an installed model",
            ) from error
    card = ModelCard.from_json(texts[CARD_FILE])
    if card.backbone != "tenns" or card.boundary_id != BOUNDARY_ID:
        given = f"{card.backbone}, boundary {card.boundary_id}"
        raise ModelError("precog.json describes another kind of model", given=given, expected="tenns, boundary 1")
    known = {"matrices", "embedding"}
    if set(card.quantisation) != known or not all(scheme in SCHEMES for scheme in card.quantisation.values()):
        expected = f"matrices and embedding: {', '.join(SCHEMES)}"
        raise ModelError("precog.json: unknown quantisation", given=dict(card.quantisation), expected=expected)
    try:
        values = json.loads(texts[CONFIG_FILE])
    except (ValueError, RecursionError) as error:
        raise ModelError("config.json is damaged", given=f"{folder}: {error}") from error
    if not isinstance(values, dict):
        raise ModelError("config.json is no JSON object", given=type(values).__name__)
    config = TennsConfig.from_dict(values)
    digest = sha256(texts[CONFIG_FILE].encode()).hexdigest()
    if digest != card.config_sha256:
        raise ModelError(
            "config.json is not the one that was saved",
            given=f"{folder}: sha256 {digest}",
            expected=card.config_sha256,
            hint="install the model again",
        )
    return card, config


def _weight_files(folder: Path) -> list[Path]:
    single = folder / WEIGHTS_FILE
    found = sorted(path for path in folder.glob("model*.safetensors") if path != single)
    if single.exists() and not found:
        return [single]
    total = _SHARD.fullmatch(found[0].name) if found else None
    count = int(total[2]) if total else 0
    expected = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    if single.exists() or not found or [path.name for path in found] != expected:
        given = ", ".join(path.name for path in found) or "none"
        wanted = f"{WEIGHTS_FILE} or every one of its shards"
        raise ModelError(
            "weight files are missing or do not belong together", given=f"{folder}: {given}", expected=wanted
        )
    return found


class NothingDrawn(TorchFunctionMode):
    """Skips initial values that are replaced at once; drawn on the meta device they cost 1.5 s of imports in torch."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def empty_model(config: TennsConfig) -> TennsModel:
    """The network without memory behind its tensors: what they are called, and their shapes."""
    with torch.device("meta"), NothingDrawn():
        return TennsModel(config)


def read_stored(folder: Path) -> tuple[ModelCard, TennsConfig, dict[str, dict[str, Tensor]]]:
    """Card, configuration, and of each weight the tensors that `unpack` takes, mapped from the files.

    Raises:
        ModelError: a file is missing or damaged, or a tensor is missing or superfluous.
    """
    card, config = read_card(folder)
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        try:
            with safe_open(path, framework="pt") as file:
                for key in file.keys():  # noqa: SIM118  # not a mapping
                    if key in tensors:
                        raise ModelError("a tensor is stored twice", given=f"{path}: {key}")
                    tensors[key] = file.get_tensor(key)
        except UNREADABLE as error:
            raise ModelError(
                "a weight file is damaged", given=f"{path}: {reason_of(error)}", hint="install the model again"
            ) from error
    digest = weights_digest(tensors)
    if digest != card.weights_sha256:
        given, hint = f"{folder}: sha256 {digest}", "install the model again"
        raise ModelError(
            "the weights are not those that were saved", given=given, expected=card.weights_sha256, hint=hint
        )
    stored: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        suffix = next((suffix for suffix in _SUFFIXES if key.endswith(suffix)), "")
        stored.setdefault(key.removesuffix(suffix) if suffix else key, {})[suffix] = tensor
    wanted = set(empty_model(config).state_dict())
    if wanted != set(stored):
        given = f"missing {sorted(wanted - set(stored))[:3]}, superfluous {sorted(set(stored) - wanted)[:3]}"
        raise ModelError("the weights are not those of config.json", given=given, expected=f"{len(wanted)} tensors")
    return card, config, stored


def unpack_checked(key: str, parts: dict[str, Tensor], shape: tuple[int, ...], card: ModelCard) -> Tensor:
    """The FP32 weight of its stored tensors.

    Raises:
        ModelError: they are not those of the card's quantisation, or have another shape.
    """
    try:
        weight = unpack(parts, scheme_of(key, len(shape), card.quantisation))
    except ModelError as error:
        raise ModelError(f"{key}: {error.message}", given=error.given, expected=error.expected) from error
    if tuple(weight.shape) != shape:
        raise ModelError(f"{key} has another shape", given=tuple(weight.shape), expected=shape)
    return weight


def load_model(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[TennsModel, ModelCard]:
    """Read a model folder; matrices and embeddings in ``dtype``, everything else in FP32.

    Raises:
        ModelError: a file is missing or damaged, a key is unknown, a tensor is missing, superfluous or misshapen.
    """
    card, config, stored = read_stored(folder)
    model = empty_model(config)
    weights: dict[str, Tensor] = {}
    for key, like in model.state_dict().items():
        weight = unpack_checked(key, stored[key], tuple(like.shape), card)
        weights[key] = weight.to(dtype) if is_matrix(key, weight.ndim) else weight
    model.load_state_dict(weights, strict=True, assign=True)
    return model.requires_grad_(False).eval(), card
