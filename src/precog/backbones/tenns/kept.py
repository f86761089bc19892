"""What is measured of a model afterwards, and written on its card: its weights and states stay what they are."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from precog.backbones.card import Json, ModelCard
from precog.backbones.kind import kind_of
from precog.backbones.tenns.adapter import is_adapter
from precog.backbones.tenns.checkpoint import CARD_FILE, read_card
from precog.errors import ModelError
from precog.writing import output_file

__all__ = ["keep_confidence"]


def keep_confidence(folder: Path, confidence: Mapping[str, Json]) -> ModelCard:
    """Put what makes a probability of a model's scores on its card, in place of what was there.

    Args:
        folder: of the model.
        confidence: the card's field of that name.

    Returns:
        The card that was written.

    Raises:
        ModelError: the card is missing or damaged, or it is an adapter's or another library's model.
        StorageError: the disk refuses.
    """
    if kind_of(folder)[0] != "tenns" or is_adapter(folder):
        expected = "the folder of a TENNs-LLM; merge an adapter first: precog train merge"
        raise ModelError("this model has no card to keep a confidence on", given=folder, expected=expected)
    card = replace(read_card(folder)[0], confidence=dict(confidence))
    with output_file(folder / CARD_FILE, "model's card", mode=0o644) as file:
        file.write(card.to_json().encode())
    return card
