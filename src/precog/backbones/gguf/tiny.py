"""Tiny GGUF files with random weights: what this room is tested with, made on the spot."""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precog.errors import UsageError

Array = NDArray[np.float32]
Value = bool | int | float | str | list[str] | list[int] | list[float]

ARCHITECTURES = ("mamba", "mamba2", "rwkv6", "rwkv7")
_WORDS = ("the", "of", "and", "to", "in", "is", "river", "tower", "Question", "Answer")
_ALIGNMENT = 32
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9  # types of metadata in GGUF
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # types of tokens in GGUF
_WIDTH, _LAYERS, _STATE, _KERNEL, _RANK, _HEADS = 64, 2, 8, 4, 4, 4


def write_tiny(path: Path, architecture: str, *, seed: int = 0) -> Path:
    """Write a model of a few thousand random weights, the same for the same seed.

    Args:
        path: of the file to make.
        architecture: one of `ARCHITECTURES`.
        seed: of the weights.

    Raises:
        UsageError: no such architecture.
    """
    makers = {"mamba": _mamba, "mamba2": _mamba2, "rwkv6": _rwkv6, "rwkv7": _rwkv7}
    if architecture not in makers:
        raise UsageError("no such architecture", given=architecture, expected=", ".join(makers))
    vocabulary = {"mamba": _byte_pairs, "mamba2": _pieces, "rwkv6": _world, "rwkv7": _world}[architecture]()
    tokens = vocabulary["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    rng = np.random.default_rng(seed)
    own, weights = makers[architecture](rng)
    weights["token_embd.weight"] = _random(rng, len(tokens), _WIDTH)
    weights["output.weight"] = _random(rng, len(tokens), _WIDTH)
    weights["output_norm.weight"] = _random(rng, _WIDTH) + 1
    metadata: dict[str, Value] = {
        "general.architecture": architecture,
        "general.name": f"tiny {architecture}",
        f"{architecture}.context_length": 1 << 20,
        f"{architecture}.embedding_length": _WIDTH,
        f"{architecture}.block_count": _LAYERS,
        **{f"{architecture}.{key}": value for key, value in own.items()},
        **vocabulary,
    }
    write_gguf(path, metadata, weights)
    return path


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, Array]) -> None:
    """Write a GGUF file of version 3 with FP32 tensors."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    head += [_string(key) + _typed(value) for key, value in metadata.items()]
    body = bytearray()
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]  # the fastest dimension first
        head.append(_string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, len(body)))
        body += tensor.astype("<f4").tobytes()
        body += bytes(-len(body) % _ALIGNMENT)
    start = b"".join(head)
    path.write_bytes(start + bytes(-len(start) % _ALIGNMENT) + body)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: Value) -> bytes:
    if isinstance(value, list):
        kind = _STRING if isinstance(value[0], str) else _INT32 if isinstance(value[0], int) else _FLOAT32
        return struct.pack("<IIQ", _ARRAY, kind, len(value)) + b"".join(_bare(item, kind) for item in value)
    kind = _BOOL if isinstance(value, bool) else _UINT32 if isinstance(value, int) else _FLOAT32
    kind = _STRING if isinstance(value, str) else kind
    return struct.pack("<I", kind) + _bare(value, kind)


def _bare(value: bool | int | float | str, kind: int) -> bytes:
    if isinstance(value, str):
        return _string(value)
    return struct.pack({_BOOL: "<?", _UINT32: "<I", _INT32: "<i", _FLOAT32: "<f"}[kind], value)


def _random(rng: np.random.Generator, *shape: int, scale: float = 0.3) -> Array:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _mamba(rng: np.random.Generator) -> tuple[dict[str, Value], dict[str, Array]]:
    inner = 2 * _WIDTH
    weights: dict[str, Array] = {}
    for layer in range(_LAYERS):
        decay = np.tile(np.arange(1, _STATE + 1, dtype=np.float32), (inner, 1))
        weights |= {
            f"blk.{layer}.{name}": value
            for name, value in {
                "attn_norm.weight": _random(rng, _WIDTH) + 1,
                "ssm_in.weight": _random(rng, 2 * inner, _WIDTH),
                "ssm_conv1d.weight": _random(rng, inner, _KERNEL),
                "ssm_conv1d.bias": _random(rng, inner),
                "ssm_x.weight": _random(rng, _RANK + 2 * _STATE, inner),
                "ssm_dt.weight": _random(rng, inner, _RANK),
                "ssm_dt.bias": _random(rng, inner) - 3,
                "ssm_a": -decay * np.exp(_random(rng, inner, _STATE)),
                "ssm_d": _random(rng, inner) + 1,
                "ssm_out.weight": _random(rng, _WIDTH, inner),
            }.items()
        }
    return _scan_sizes(_RANK), weights


def _mamba2(rng: np.random.Generator) -> tuple[dict[str, Value], dict[str, Array]]:
    inner = 2 * _WIDTH
    convolved = inner + 2 * _STATE
    weights: dict[str, Array] = {}
    for layer in range(_LAYERS):
        weights |= {
            f"blk.{layer}.{name}": value
            for name, value in {
                "attn_norm.weight": _random(rng, _WIDTH) + 1,
                "ssm_in.weight": _random(rng, inner + convolved + _HEADS, _WIDTH),
                "ssm_conv1d.weight": _random(rng, convolved, _KERNEL),
                "ssm_conv1d.bias": _random(rng, convolved),
                "ssm_dt.bias": _random(rng, _HEADS) - 2,
                "ssm_a": -np.exp(_random(rng, _HEADS, 1)),
                "ssm_d": _random(rng, _HEADS, 1) + 1,
                "ssm_norm.weight": _random(rng, 1, inner) + 1,
                "ssm_out.weight": _random(rng, _WIDTH, inner),
            }.items()
        }
    return {**_scan_sizes(_HEADS), "ssm.group_count": 1}, weights


def _scan_sizes(rank: int) -> dict[str, Value]:
    return {
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "ssm.conv_kernel": _KERNEL,
        "ssm.inner_size": 2 * _WIDTH,
        "ssm.state_size": _STATE,
        "ssm.time_step_rank": rank,
    }


def _rwkv6(rng: np.random.Generator) -> tuple[dict[str, Value], dict[str, Array]]:
    width = _WIDTH
    weights = _rwkv_ends(rng)
    for layer in range(_LAYERS):
        parts = _rwkv_layer(rng)
        parts |= {
            "time_mix_w1.weight": _random(rng, 5 * _RANK, width),
            "time_mix_w2.weight": _random(rng, 5, width, _RANK),
            "time_mix_lerp_x.weight": _random(rng, 1, 1, width),
            "time_mix_lerp_fused.weight": _random(rng, 5, 1, 1, width),
            "time_mix_first.weight": _random(rng, 1, width),
            "time_mix_decay.weight": _random(rng, width) - 3,
            "time_mix_decay_w1.weight": _random(rng, _RANK, width),
            "time_mix_decay_w2.weight": _random(rng, width, _RANK),
            "time_mix_gate.weight": _random(rng, width, width),
            "channel_mix_lerp_r.weight": _random(rng, 1, 1, width),
            "channel_mix_receptance.weight": _random(rng, width, width),
        }
        weights |= {f"blk.{layer}.{name}": value for name, value in parts.items()}
    return {**_rwkv_sizes(), "time_mix_extra_dim": _RANK, "time_decay_extra_dim": _RANK}, weights


def _rwkv7(rng: np.random.Generator) -> tuple[dict[str, Value], dict[str, Array]]:
    width = _WIDTH
    weights = _rwkv_ends(rng)
    for layer in range(_LAYERS):
        parts = _rwkv_layer(rng)
        for name in ("w", "a", "v"):
            parts[f"time_mix_{name}0.weight"] = _random(rng, width)
            parts[f"time_mix_{name}1.weight"] = _random(rng, _RANK, width)
            parts[f"time_mix_{name}2.weight"] = _random(rng, width, _RANK)
        parts["time_mix_g1.weight"] = _random(rng, _RANK, width)
        parts["time_mix_g2.weight"] = _random(rng, width, _RANK)
        parts["time_mix_lerp_fused.weight"] = _random(rng, 6, 1, 1, width)
        for name in ("k_k", "k_a", "r_k"):
            parts[f"time_mix_{name}.weight"] = _random(rng, width) + 0.7
        weights |= {f"blk.{layer}.{name}": value for name, value in parts.items()}
    ranks = ("decay", "iclr", "value_residual_mix", "gate")
    return {**_rwkv_sizes(), **{f"attention.{name}_lora_rank": _RANK for name in ranks}}, weights


def _rwkv_ends(rng: np.random.Generator) -> dict[str, Array]:
    return {
        "token_embd_norm.weight": _random(rng, _WIDTH) + 1,
        "token_embd_norm.bias": _random(rng, _WIDTH),
        "output_norm.bias": _random(rng, _WIDTH),
    }


def _rwkv_layer(rng: np.random.Generator) -> dict[str, Array]:
    """What layers of both versions have."""
    width, wide = _WIDTH, 4 * _WIDTH
    parts: dict[str, Array] = {}
    for norm in ("attn_norm", "attn_norm_2", "time_mix_ln"):
        parts |= {f"{norm}.weight": _random(rng, width) + 1, f"{norm}.bias": _random(rng, width)}
    for name in ("key", "value", "receptance", "output"):
        parts[f"time_mix_{name}.weight"] = _random(rng, width, width)
    parts["channel_mix_lerp_k.weight"] = _random(rng, 1, 1, width)
    parts["channel_mix_key.weight"] = _random(rng, wide, width)
    parts["channel_mix_value.weight"] = _random(rng, width, wide)
    return parts


def _rwkv_sizes() -> dict[str, Value]:
    return {
        "feed_forward_length": 4 * _WIDTH,
        "attention.head_count": 0,
        "attention.layer_norm_epsilon": 1e-5,
        "wkv.head_size": _WIDTH,
        "token_shift_count": 2,
    }


def _byte_pairs() -> dict[str, Value]:
    """Every byte, and pairs that make some words; no token opens a text, as with Mamba."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {byte: chr(byte) for byte in shown}
    alphabet |= {byte: chr(256 + i) for i, byte in enumerate(sorted(set(range(256)) - set(shown)))}
    tokens, merges = ["<|endoftext|>", *(alphabet[byte] for byte in range(256))], []
    for word in _WORDS:
        pairs = [(word[:cut], word[cut]) for cut in range(1, len(word))]
        for left, right in [*pairs, (alphabet[32], word)]:
            if left + right not in tokens:
                tokens.append(left + right)
                merges.append(f"{left} {right}")
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [_CONTROL] + [_NORMAL] * (len(tokens) - 1),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.add_bos_token": False,
    }


def _pieces() -> dict[str, Value]:
    """Pieces with scores, bytes for the rest; ``<s>`` opens every text, as with Codestral's Mamba-2."""
    marked = ["\u2581" + word for word in _WORDS]
    parts = {word[: cut + 1] for word in [*_WORDS, *marked] for cut in range(len(word))}
    words = sorted(parts, key=lambda part: (-len(part), part))
    data = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *data, *words]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(words))],
        "tokenizer.ggml.token_type": [_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * 256 + [_NORMAL] * len(words),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
    }


def _world() -> dict[str, Value]:
    """Every byte and some words, the longest first; id 0 ends and opens texts, as with RWKV."""
    data = ["".join(f"\\x{byte:02x}") for byte in range(256)]
    tokens = ["<s>", *data, *_WORDS, *(" " + word for word in _WORDS)]
    return {
        "tokenizer.ggml.model": "rwkv",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [_CONTROL] + [_NORMAL] * (len(tokens) - 1),
    }


def make(name: str, folder: Path, seed: int) -> Path:
    """Write a tiny model of the architecture that a name such as ``gguf-mamba2`` ends with."""
    path = folder / f"{name}.gguf"
    write_tiny(path, name.partition("-")[2], seed=seed)
    return path
