"""Reading on from the bytes of a state in a process that knows nothing but them and the model's files."""

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import torch

from precog.backbones.protocol import Backbone
from precog.backbones.registry import load_backbone
from precog.backbones.tenns.backbone import TennsBackbone
from precog.evaluate.theorem.sufficiency import ReadElsewhere
from precog.state import CODECS
from precog.text.tokenizer import load_mistral_tokenizer

DIAGONAL = "tiny"
"""The preset of the paper's recurrence, complex and diagonal, that is measured with random weights."""


def diagonal_backbone(seed: int) -> TennsBackbone:
    """A small random model of the paper's recurrence, the same on every machine."""
    return TennsBackbone.random(DIAGONAL, load_mistral_tokenizer(), seed=seed)


def in_another_process(model: Path | None, seed: int, device: str = "cpu") -> ReadElsewhere:
    """What reads tokens from the bytes of an FP32 state in a process of its own.

    Args:
        model: the model's files; the random diagonal model of ``seed`` when None.
        seed: of the random model.
        device: where to compute.
    """

    def read(data: bytes, num_tokens: int, ids: Sequence[int]) -> torch.Tensor:
        path = None if model is None else str(model)
        arguments = (path, seed, device, torch.get_num_threads(), data, num_tokens, list(ids))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return torch.tensor(pool.apply(_read_on, arguments))

    return read


def _read_on(
    path: str | None, seed: int, device: str, threads: int, data: bytes, num_tokens: int, ids: list[int]
) -> list[list[float]]:
    torch.set_num_threads(threads)  # sums are added up in the same order
    backbone: Backbone = (
        diagonal_backbone(seed) if path is None else load_backbone(path, device=device, dtype="float32")
    )
    state = CODECS["fp32"].decode(data, backbone.spec, num_tokens=num_tokens)
    rows: list[list[float]] = backbone.prefill_logits(ids, state)[1].tolist()
    return rows
