"""RWKV-7 files: which tensors a model has, of which shapes, and what a file that is none of them is.

A ``.pth`` is a pickle. It is read with torch's restricted unpickler alone (``weights_only``), which builds tensors and
plain containers and runs no code of the file; a file that asks for more is refused. A ``.safetensors`` of the same
tensors needs no such care.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import layer_norm

from precog.errors import ModelError

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SAFE_SUFFIX = ".safetensors"
_VECTORS = ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "w0", "a0", "v0", "k_k", "k_a")
_TRANSPOSED = ("key.weight", "value.weight", "receptance.weight", "output.weight", "head.weight")
# layer 0 mixes no values of a layer before it: a file may have these, and they are not read
_IGNORED = ("blocks.0.att.v0", "blocks.0.att.v1", "blocks.0.att.v2")
_LORAS = "wavg"
_MOST_NAMED = 3


@dataclass(frozen=True)
class Rwkv7Shape:
    """Sizes of a model.

    Attributes:
        layers: L.
        width: C.
        heads: H of them, C / H reals each.
        hidden: of the channel mixing.
        vocabulary: V.
    """

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int

    @property
    def head_size(self) -> int:
        """N = C / H."""
        return self.width // self.heads

    @property
    def state_reals(self) -> int:
        """H · N² of the recurrence, and the last inputs of the two token shifts."""
        return self.width * self.head_size + 2 * self.width


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, mapped rather than read; no code of the file runs.

    Raises:
        ModelError: it is damaged, or holds something else than tensors by name.
    """
    try:
        found: object = (
            load_file(path)
            if path.suffix == SAFE_SUFFIX
            else torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        )
    except Exception as error:  # a damaged pickle ends in errors of every kind
        why = next(iter(str(error).splitlines()), type(error).__name__)
        hint = "take the file as it was published: a zip of tensors, as torch.save writes it"
        raise ModelError(f"this RWKV file cannot be read: {why}", given=path, hint=hint) from error
    if not isinstance(found, Mapping) or not found:
        raise ModelError("this RWKV file holds no tensors", given=path, expected="tensors by name")
    odd = [name for name, tensor in found.items() if not isinstance(name, str) or not isinstance(tensor, Tensor)]
    if odd:
        raise ModelError("this RWKV file holds something else than tensors", given=f"{path}: {_some(map(str, odd))}")
    return dict(found)


def shape_of(tensors: Mapping[str, Tensor], path: Path) -> Rwkv7Shape:
    """The sizes of a model, once every tensor is there and fits.

    Raises:
        ModelError: it is of another version, or tensors are missing, unknown, of another shape or no reals.
    """
    _check_version(tensors, path)
    numbers = {name.split(".")[1] for name in tensors if name.startswith("blocks.")}
    layers = len(numbers)
    if numbers != {str(layer) for layer in range(layers)}:
        raise ModelError("this RWKV-7 file is not whole: layers are missing", given=path, expected="layers from 0 on")
    try:
        vocabulary, width = tensors["emb.weight"].shape
        heads, head_size = tensors["blocks.0.att.r_k"].shape
        hidden, _ = tensors["blocks.0.ffn.key.weight"].shape
    except KeyError as error:
        raise ModelError("this RWKV-7 file has missing tensors", given=path, expected=error.args[0]) from error
    except ValueError as error:
        raise ModelError("a matrix of this RWKV-7 file is none", given=path) from error
    if not width:
        raise ModelError("this RWKV-7 file holds no reals", given=path)
    if heads * head_size != width:
        given = f"{heads} heads of {head_size}"
        raise ModelError("the heads of this RWKV-7 file do not fit its width", given=given, expected=width)
    shape = Rwkv7Shape(layers, width, heads, hidden, vocabulary)
    _check_tensors(tensors, shape, path)
    return shape


def prepare(
    tensors: Mapping[str, Tensor], shape: Rwkv7Shape, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Copies as the package holds them: matrices as [inputs, outputs], vectors flat, the embedding normalised.

    Args:
        tensors: of a file, checked by `shape_of`.
        shape: sizes of the model.
        device: where to.
        dtype: in which dtype.
    """
    weights = {}
    for name, tensor in tensors.items():
        if name.endswith(_TRANSPOSED):
            tensor = tensor.t()
        elif tensor.ndim != 2 or name.endswith(".r_k"):
            tensor = tensor.flatten()
        weights[name] = torch.empty(tensor.shape, dtype=dtype, device=device).copy_(tensor)
    norm = weights["blocks.0.ln0.weight"], weights["blocks.0.ln0.bias"]
    weights["emb.weight"] = layer_norm(weights["emb.weight"], (shape.width,), *norm)
    weights |= {name: torch.empty(0, dtype=dtype, device=device) for name in _IGNORED}
    return weights


def _check_version(tensors: Iterable[str], path: Path) -> None:
    names = list(tensors)

    def any_with(*parts: str) -> bool:
        return any(part in name for name in names for part in parts)

    if any_with(".att.r_k"):
        if any_with(".s_emb"):
            raise ModelError("RWKV-7 with DeepEmbed is not supported", given=path, expected="a plain RWKV-7 model")
        return
    hint = None
    if any_with(".time_maa"):
        what = "an RWKV-6 file"
    elif any_with(".att.ln_x", ".att.gate"):
        what = "an RWKV-5 file"
    elif any_with(".time_decay", ".time_mix_k"):
        what, hint = "an RWKV-4 file", "RWKV-4 is read through transformers: give its Hugging Face folder"
    elif any_with(".time_state"):
        what = "a tuned initial state of RWKV, and no model"
    elif any_with("lora_"):
        what, hint = "an adapter, and no model", "merge it into its model first"
    else:
        what = "no RWKV model"
    raise ModelError(f"this is {what}", given=path, expected="an RWKV-7 model", hint=hint)


def _check_tensors(tensors: Mapping[str, Tensor], shape: Rwkv7Shape, path: Path) -> None:
    expected = _expected(tensors, shape)
    missing = [name for name in expected if name not in tensors and name not in _IGNORED]
    if missing:
        raise ModelError("this RWKV-7 file has missing tensors", given=path, expected=_some(missing))
    unknown = sorted(set(tensors) - set(expected))
    if unknown:
        raise ModelError("this RWKV-7 file has tensors that RWKV-7 has not", given=f"{path}: {_some(unknown)}")
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            dtypes = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise ModelError(f"{name} of this RWKV-7 file is no tensor of reals", given=tensor.dtype, expected=dtypes)
        if name in _IGNORED:
            continue
        found = tuple(tensor.shape[2:] if tensor.ndim == 3 and tensor.shape[:2] == (1, 1) else tensor.shape)
        if found != expected[name]:
            raise ModelError(f"{name} of this RWKV-7 file has another shape", given=found, expected=expected[name])


def _expected(tensors: Mapping[str, Tensor], shape: Rwkv7Shape) -> dict[str, tuple[int, ...]]:
    width, norm = shape.width, ("weight", "bias")
    expected: dict[str, tuple[int, ...]] = {
        "emb.weight": (shape.vocabulary, width),
        "head.weight": (shape.vocabulary, width),
        **{f"{name}.{part}": (width,) for name in ("ln_out", "blocks.0.ln0") for part in norm},
    }
    for layer in range(shape.layers):
        att, ffn = f"blocks.{layer}.att.", f"blocks.{layer}.ffn."
        expected |= {f"blocks.{layer}.{name}.{part}": (width,) for name in ("ln1", "ln2") for part in norm}
        expected |= {att + name: (width,) for name in _VECTORS}
        for kind in _LORAS:
            first = tensors.get(f"{att}{kind}1")
            rank = first.shape[-1] if first is not None and first.ndim else 0
            expected |= {f"{att}{kind}1": (width, rank), f"{att}{kind}2": (rank, width)}
        expected |= {f"{att}{name}.weight": (width, width) for name in ("receptance", "key", "value", "output")}
        expected |= {f"{att}ln_x.{part}": (width,) for part in norm}
        expected[att + "r_k"] = (shape.heads, shape.head_size)
        expected |= {
            ffn + "x_k": (width,),
            ffn + "key.weight": (shape.hidden, width),
            ffn + "value.weight": (width, shape.hidden),
        }
    return expected


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
