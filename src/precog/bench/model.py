"""The model under measurement: a folder, an installed one, or an untrained one of a preset (``random:PRESET``).

Timings do not depend on what a model has learned, so that speed can be measured before any model is installed.
"""

from pathlib import Path

import torch

from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.protocol import Backbone
from precog.backbones.registry import choose_device, find_model, installed_models, load_backbone, model_config
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel, build
from precog.bench.result import Subject
from precog.errors import UsageError
from precog.state import StateSpec, codec_named
from precog.text.tokenizer import load_mistral_tokenizer

RANDOM = "random:"
DEFAULT = "random:base"
QUICK = "random:tiny-outer"
_UNTRAINED = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}


def model_name(wanted: str | None, *, quick: bool = False) -> str:
    """What was asked for, else the only installed model, else an untrained one."""
    if wanted is not None:
        return wanted
    installed = installed_models()
    if quick or len(installed) != 1:
        return QUICK if quick else DEFAULT
    return next(iter(installed))


def open_backbone(name: str, *, device: str = "auto", dtype: str = "auto", threads: int | None = None) -> Backbone:
    """Opens the model; see `load_backbone`. An untrained one is never packed.

    Raises:
        ModelError: there is no such model or preset.
        UsageError: threads are out of range, or the device is not there.
    """
    if not name.startswith(RANDOM):
        return load_backbone(name, device=device, dtype=dtype, threads=threads)
    if dtype not in _UNTRAINED:
        raise UsageError(f"{name}: no such compute dtype", given=dtype, expected=", ".join(_UNTRAINED))
    if threads is not None:
        choose_threads(threads)
    network = build(TennsConfig.preset(name.removeprefix(RANDOM)))
    place, tokenizer = choose_device(device), load_mistral_tokenizer()
    return TennsBackbone.wrap(network, tokenizer, name=name, device=place, dtype=_UNTRAINED[dtype])


def choose_threads(threads: int) -> None:
    """Sets the CPU threads of every later computation in this process.

    Raises:
        UsageError: out of range.
    """
    if threads < 1:
        raise UsageError("--threads is out of range", given=threads, expected="at least 1")
    torch.set_num_threads(threads)


def model_folder(name: str, room: Path) -> Path:
    """A folder that another process can open the model from; an untrained one is written into ``room``."""
    if not name.startswith(RANDOM):
        return find_model(name)
    folder = room / "model"
    network = build(TennsConfig.preset(name.removeprefix(RANDOM)))
    save_model(folder, network, name=name, tokenizer_sha256=load_mistral_tokenizer().sha256)
    return folder


def state_spec(name: str) -> StateSpec:
    """Sizes of the model's states; the weights are not loaded and the fingerprint is a blank.

    Raises:
        ModelError: there is no such model or preset.
    """
    if name.startswith(RANDOM):
        config = TennsConfig.preset(name.removeprefix(RANDOM))
    else:
        config = model_config(find_model(name))
    return StateSpec(
        layers=config.layers,
        reals_per_layer=config.state_reals,
        tail_shape=(config.kernel - 1, config.inner),
        decay_groups=config.decay_groups,
        fingerprint="0" * 64,
        carries_tail=config.conv_boundary == "carried",
    )


def network_of(backbone: Backbone) -> TennsModel:
    """The network itself, to count its weights and operations.

    Raises:
        UsageError: a family of models that this measurement does not know.
    """
    if not isinstance(backbone, TennsBackbone):
        raise UsageError("this measurement knows TENNs-LLM only", given=backbone.card.backbone)
    return backbone.model


def num_parameters(backbone: Backbone) -> int:
    """Weights, tied ones once; 0 where another library runs the model and does not tell."""
    if isinstance(backbone, HostedBackbone):
        return int(getattr(backbone.runtime, "num_parameters", 0))
    return network_of(backbone).num_parameters()


def flops_per_token(backbone: Backbone) -> int:
    """Floating-point operations of reading one token; twice the weights for a model that another library runs."""
    if isinstance(backbone, HostedBackbone):
        return 2 * num_parameters(backbone)
    return network_of(backbone).flops_per_token()


def subject_of(backbone: Backbone, codec: str = "fp16") -> Subject:
    """What a result says about the model."""
    return Subject(
        name=backbone.card.name,
        parameters=num_parameters(backbone),
        dtype=backbone.encoding_dtype,
        device=str(backbone.device),
        state_bytes=codec_named(codec).encoded_bytes(backbone.spec),
    )
