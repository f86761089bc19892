"""Merging: an adapter and its base become one model folder that needs neither."""

from pathlib import Path

from precog.backbones.card import ModelCard
from precog.backbones.registry import find_model, load_network
from precog.backbones.tenns.adapter import apply_adapter, is_adapter
from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.target import refuse_existing
from precog.errors import ModelError
from precog.train.start import UNLIMITED_BYTES


def merge_adapter(
    adapter: Path,
    out: Path,
    *,
    base: str | None = None,
    matrices: str = "fp32",
    embedding: str = "fp32",
    shard_bytes: int = UNLIMITED_BYTES,
) -> ModelCard:
    """Write the model that a base with an adapter is.

    Its states are not those of base and adapter apart (its fingerprint says so): a corpus moves to it by reindexing.

    Args:
        adapter: the adapter's folder.
        out: where the model goes.
        base: folder or name of the base; where the adapter says it is when None.
        matrices, embedding: how they are stored, see ``save_model``.
        shard_bytes: no weight file is larger.

    Raises:
        ModelError: the folder is no adapter, or base and adapter do not belong together.
        UsageError: there is something at the output path already, or it lies inside the adapter or the named base.
        StorageError: the disk is full or refuses.
    """
    if not is_adapter(adapter):
        raise ModelError("this folder is no adapter", given=adapter, expected="a folder of `precog train lora`")
    refuse_existing(out, adapter, *([] if base is None else [find_model(base)]))
    if base is None:
        network, card = load_network(adapter)
    else:
        network, card = apply_adapter(adapter, *load_network(find_model(base)))
    return save_model(
        out,
        network,
        name=card.name,
        tokenizer_sha256=card.tokenizer_sha256,
        matrices=matrices,
        embedding=embedding,
        shard_bytes=shard_bytes,
        chunk_template=card.chunk_template,
        question_template=card.question_template,
        decoding=card.decoding,
        chunk_tokens=card.chunk_tokens,
        notes=card.notes,
        replace_old=False,
    )
