"""Finds and opens models: a folder, the name of an installed one, ``PRECOG_MODEL``, or the only one installed.

A weight distribution declares an entry point of the group ``precog.models``: name → the package whose folder holds
the model's files. The package is located, never imported, and files never choose code.
"""

import os
import shlex
import warnings
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

import torch

from precog.backbones.card import ModelCard
from precog.backbones.hosted.backbone import HostedBackbone
from precog.backbones.hosted.restore import check_restored
from precog.backbones.kind import kind_of
from precog.backbones.protocol import Backbone
from precog.backbones.template import Template
from precog.backbones.tenns.adapter import apply_adapter, is_adapter, read_adapter_card
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import empty_model, load_model, read_card
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel
from precog.backbones.tenns.packed import load_packed
from precog.errors import ModelError, PrecogError, UsageError
from precog.hub import cached, is_hub_id
from precog.text.tokenizer import Tokenizer, load_mistral_tokenizer

GROUP = "precog.models"
ENVIRONMENT = "PRECOG_MODEL"
_HINT = f"give a model folder or name with --model or {ENVIRONMENT}, or install a weight distribution (weights/)"
MAX_ADAPTERS = 8
UNPACKED_BYTES = 2_000_000_000  # a quantised model that would take more than this is not unpacked
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def installed_models() -> dict[str, Path]:
    """Folders of the models that installed distributions bring, by name."""
    found = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        folder = _folder_of(entry)
        if folder is not None:
            found[entry.name] = folder
    return found


def _folder_of(entry: EntryPoint) -> Path | None:
    try:
        spec = find_spec(entry.module)
    except (ImportError, ValueError):
        return None
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(locations[0]) if locations else None


def find_model(name: str | os.PathLike[str] | None = None) -> Path:
    """The folder of a model: given by path or name, else by ``PRECOG_MODEL``, else the only one installed.

    Raises:
        ModelError: there is no such model, none at all, or several to choose from.
    """
    wanted = os.fspath(name) if name is not None else os.environ.get(ENVIRONMENT, "")
    installed = installed_models()
    if not wanted:
        if len(installed) == 1:
            return next(iter(installed.values()))
        if not installed:
            raise ModelError("no model is installed", hint=_HINT)
        raise ModelError("several models are installed", given=", ".join(installed), hint="choose one with --model")
    if wanted in installed:
        return installed[wanted]
    folder = Path(wanted).expanduser()
    if folder.exists():
        return folder
    if is_hub_id(wanted):
        if (snapshot := cached(wanted)) is not None:
            return snapshot
        hint = f"if it is a model of the hub: precog models --download {shlex.quote(wanted)}"
        raise ModelError(
            "no such model on this machine", given=wanted, expected="a folder, or a cached hub id", hint=hint
        )
    raise ModelError("no such model", given=wanted, expected=", ".join(installed) or "a model folder", hint=_HINT)


def title_of(folder: str) -> str:
    """What people call the model in a folder: the name it is installed by, else that of the folder."""
    path = Path(folder)
    return next((name for name, installed in installed_models().items() if installed == path), path.name)


def choose_device(name: str = "auto") -> torch.device:
    """A device by name; ``auto`` is CUDA where there is one, else the CPU.

    Raises:
        UsageError: unknown, or not present on this machine.
    """
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if present["cuda"] else "cpu")
    if name.partition(":")[0] not in present:
        raise UsageError("--device: unknown device", given=name, expected="auto, cpu, cuda or mps")
    if not present[name.partition(":")[0]]:
        raise UsageError("--device: this machine has no such device", given=name, hint="use --device cpu")
    return torch.device(name)


def load_backbone(
    model: str | os.PathLike[str] | None = None,
    *,
    encode_mode: str = "once",
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    tokenizer: Tokenizer | None = None,
    template: Template | None = None,
    made_in: str = "",
) -> Backbone:
    """Open a model.

    Args:
        model: folder or installed name; see `find_model` for None.
        encode_mode: ``once``, ``twice`` or ``twice-reversed``; part of the fingerprint.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        dtype: compute dtype: ``float32`` (exact), ``bfloat16`` or ``float64``; ``packed`` keeps INT4 and INT8 weights
            packed in memory and multiplies in BF16, on the CPU; ``auto`` is ``packed`` for a quantised model that
            would take more than 2 GB unpacked, else ``float32``.
        threads: CPU threads of every later computation in this process; torch's choice when None.
        tokenizer: of a TENNs-LLM; Mistral-7B-v0.1 when None. Other models bring their own.
        made_in: dtype that states at hand were made in: what ``auto`` is for a model of another library.
        template: text around chunks and questions in place of the model's own; the chunk's is part of the fingerprint.

    Raises:
        ModelError: there is no such model, or it is damaged or of an unknown kind.
        UsageError: device, dtype or threads are out of range.
    """
    if dtype not in (*_DTYPES, "packed", "auto"):
        raise UsageError("unknown compute dtype", given=dtype, expected=", ".join((*_DTYPES, "packed", "auto")))
    if threads is not None:
        if threads < 1:
            raise UsageError("--threads is out of range", given=threads, expected="at least 1")
        torch.set_num_threads(threads)
    kind, folder = kind_of(find_model(model))
    place = choose_device(device)
    if kind != "tenns":
        if dtype == "packed":
            raise UsageError("only a quantised TENNs-LLM has packed weights", given=folder, expected="float32")
        wanted = made_in if dtype == "auto" else dtype
        return _open_hosted(kind, folder, encode_mode, place, _DTYPES.get(wanted, torch.float32), template)
    tokenizer = load_mistral_tokenizer() if tokenizer is None else tokenizer
    if is_adapter(folder) and dtype == "packed":
        hint = "merge it first: precog train merge"
        raise UsageError("an adapter is added to unpacked weights", given=f"{folder}, {dtype}", hint=hint)
    if dtype == "auto":
        dtype = "packed" if place.type == "cpu" and not is_adapter(folder) and _is_large(folder) else "float32"
    if dtype == "packed" and place.type != "cpu":
        raise UsageError("packed weights are multiplied on the CPU only", given=place, hint="use --device cpu")
    packed, compute = dtype == "packed", _DTYPES.get(dtype, torch.float32)
    if template is None and not is_adapter(folder):
        return TennsBackbone.load(
            folder, tokenizer, encode_mode=encode_mode, device=place, dtype=compute, packed=packed
        )
    network, card = load_packed(folder) if packed else load_network(folder)
    if template is not None:
        card = with_template(card, template)
    return TennsBackbone(network, card, tokenizer, encode_mode=encode_mode, device=place, dtype=compute)


def load_tokenizer(model: str | os.PathLike[str] | None = None) -> Tokenizer:
    """The tokenizer of a model, without its weights where its family can; Mistral-7B's where the model is gone.

    Raises:
        ModelError: the model's files are damaged, or its library is missing.
    """
    try:
        kind, path = kind_of(find_model(model))
    except ModelError:
        return load_mistral_tokenizer()
    if kind == "tenns":
        return load_mistral_tokenizer()
    opening = import_module(f"precog.backbones.{kind}.opening")
    if hasattr(opening, "open_tokenizer"):
        found: Tokenizer = opening.open_tokenizer(path)
        return found
    return _open_hosted(kind, path, "once", torch.device("cpu"), torch.float32, None).tokenizer


def with_template(card: ModelCard, template: Template) -> ModelCard:
    """A card with other text around chunks and questions; what was fitted to answers in the old text is left out."""
    return replace(
        card,
        confidence={},
        chunk_template=card.chunk_template if template.chunk is None else template.chunk,
        question_template=card.question_template if template.question is None else template.question,
    )


def _open_hosted(
    kind: str, path: Path, encode_mode: str, device: torch.device, dtype: torch.dtype, template: Template | None
) -> Backbone:
    """A model that another library runs; each family's adapter, and its library, is imported only here."""
    opener = import_module(f"precog.backbones.{kind}.opening")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about files that are refused here, or that do no harm
        try:
            backbone: HostedBackbone = opener.open_model(
                path, encode_mode=encode_mode, device=device, dtype=dtype, template=template or Template()
            )
            return check_restored(backbone)
        except PrecogError:
            raise
        except Exception as error:  # a configuration that its library takes, and cannot compute with
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            hint = "its configuration or weights are damaged, or its library is at fault"
            raise ModelError(f"the model cannot be run: {said}", given=path, hint=hint) from error


def _is_large(folder: Path) -> bool:
    """Whether a model is stored in few bits and would be large in FP32."""
    card, config = read_card(folder)
    return card.quantisation["matrices"] != "fp32" and 4 * empty_model(config).num_parameters() > UNPACKED_BYTES


def load_network(folder: Path) -> tuple[TennsModel, ModelCard]:
    """The FP32 network of a model's or an adapter's folder, and its card.

    Raises:
        ModelError: it is damaged, or the base of an adapter is not to be found.
    """
    adapters, folder = _chain(folder)
    network, card = load_model(folder)
    for adapter in reversed(adapters):
        network, card = apply_adapter(adapter, network, card)
    return network, card


def model_config(folder: Path) -> TennsConfig:
    """The shape of a model's or an adapter's folder, without its weights.

    Raises:
        ModelError: it is damaged, or the base of an adapter is not to be found.
    """
    return read_card(_chain(folder)[1])[1]


def _chain(folder: Path) -> tuple[list[Path], Path]:
    """The adapters of a folder, outermost first, and the model they stand on."""
    adapters: list[Path] = []
    while is_adapter(folder):
        if len(adapters) == MAX_ADAPTERS:
            raise ModelError("too many adapters stand on each other", given=adapters[0], expected=MAX_ADAPTERS)
        adapters.append(folder)
        folder = _base_folder(folder)
    return adapters, folder


def _base_folder(adapter: Path) -> Path:
    """Where the base of an adapter is: installed, where it was, or beside the adapter; its fingerprint says more."""
    base = read_adapter_card(adapter).base
    installed = installed_models()
    if base in installed:
        return installed[base]
    for folder in (Path(base), adapter / base, adapter.parent / Path(base).name):
        if folder.is_dir() and folder.resolve() != adapter.resolve():
            return folder
    merge = shlex.join(["precog", "train", "merge", str(adapter), "--base"])
    hint = f"put it at {adapter.parent / Path(base).name}, or say where it is: {merge} DIR --out DIR"
    raise ModelError("the base of this adapter is not here", given=adapter, expected=base, hint=hint)
