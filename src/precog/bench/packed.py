"""A model under measurement whose matrices stay packed: stored so, rounded on the spot, or drawn at random."""

import torch

from precog.backbones.card import ModelCard
from precog.backbones.registry import find_model
from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import read_card
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.packed import load_packed, random_packed
from precog.backbones.tenns.quantise import SCHEMES
from precog.bench.model import RANDOM, choose_threads
from precog.errors import UsageError
from precog.text.tokenizer import load_mistral_tokenizer
from precog.train.quantise import quantise


def open_packed(name: str, *, matrices: str, embedding: str, threads: int | None = None) -> TennsBackbone:
    """Opens a model with packed matrices, on the CPU.

    Args:
        name: folder, installed model, or ``random:PRESET``, which is drawn and rounded block by block.
        matrices: ``int4:…``, ``int8`` or ``bf16``; a model stored otherwise is rounded, each matrix by itself.
        embedding: the same for embeddings and output head.
        threads: CPU threads of every later computation in this process.

    Raises:
        ModelError: there is no such model or preset, or a matrix does not fit the scheme.
        UsageError: unknown scheme, or threads are out of range.
    """
    for scheme in (matrices, embedding):
        if scheme not in SCHEMES or scheme == "fp32":
            raise UsageError("no such packed scheme", given=scheme, expected="bf16, int8 or int4:32|64|128|channel")
    if threads is not None:
        choose_threads(threads)
    tokenizer = load_mistral_tokenizer()
    if name.startswith(RANDOM):
        network = random_packed(TennsConfig.preset(name.removeprefix(RANDOM)), matrices, embedding)
        card = ModelCard(name=name, tokenizer_sha256=tokenizer.sha256, weights_sha256="")
        return TennsBackbone(network, card, tokenizer)
    folder = find_model(name)
    if read_card(folder)[0].quantisation == {"matrices": matrices, "embedding": embedding}:
        return TennsBackbone(*load_packed(folder), tokenizer)
    with torch.no_grad():
        return TennsBackbone(*quantise(folder, matrices=matrices, embedding=embedding).packed(), tokenizer)
