"""What is measured of a model afterwards, and written on its card: its weights and states stay what they are."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from precog.backbones.card import FOCUSED, Json, ModelCard
from precog.backbones.kind import kind_of
from precog.backbones.tenns.adapter import is_adapter
from precog.backbones.tenns.checkpoint import CARD_FILE, read_card
from precog.errors import ModelError
from precog.writing import output_file, output_target

__all__ = ["card_to_keep_on", "keep_confidence"]


def card_to_keep_on(folder: Path, *, focused: bool = False) -> ModelCard:
    """The card of a model that `keep_confidence` can write on.

    Args:
        folder: of the model.
        focused: what is to be kept is of answers from focused states; it stands beside that of the others.

    Raises:
        ModelError: the card is missing or damaged, it is an adapter's or another library's model, or there is nothing
            to stand beside.
        StorageError: nothing can be written to the folder.
    """
    if kind_of(folder)[0] != "tenns" or is_adapter(folder):
        expected = "the folder of a TENNs-LLM; merge an adapter first: precog train merge"
        raise ModelError("this model has no card to keep a confidence on", given=folder, expected=expected)
    card = read_card(folder)[0]
    if focused and not card.confidence:
        raise ModelError(
            "this model's card has no confidence for states that are read once, which focusing itself goes by",
            given=folder,
            hint="precog eval abstain --fit FILE --keep first",
        )
    output_target(folder / CARD_FILE, "model's card")
    return card


def keep_confidence(
    folder: Path, confidence: Mapping[str, Json], *, focused: bool = False, measured: ModelCard | None = None
) -> ModelCard:
    """Put what makes a probability of a model's scores on its card, in place of what was there.

    Args:
        folder: of the model.
        confidence: coefficients, as `precog.engine.confidence.Calibration` has them.
        focused: they are of answers from focused states. What was there for the others stays, and the other way round.
        measured: the card of the model that was measured, which takes a while; None where it is the one in the folder.

    Returns:
        The card that was written.

    Raises:
        ModelError: as `card_to_keep_on`, or another model has taken the place of the one that was measured.
        StorageError: as there, or the disk refuses.
    """
    card = card_to_keep_on(folder, focused=focused)
    if measured is not None and _scores_of(card) != _scores_of(measured):
        given, expected = f"{folder}: {card.weights_sha256}", measured.weights_sha256
        raise ModelError("the model in this folder is not the one that was measured", given=given, expected=expected)
    own = dict(card.confidence)
    other = {FOCUSED: own.pop(FOCUSED)} if FOCUSED in own else {}
    kept = {**own, FOCUSED: dict(confidence)} if focused else {**confidence, **other}
    card = replace(card, confidence=kept)
    with output_file(folder / CARD_FILE, "model's card", mode=0o644) as file:
        file.write(card.to_json().encode())
    return card


def _scores_of(card: ModelCard) -> ModelCard:
    """What of a card decides a model's scores."""
    return replace(card, name="", chunk_tokens=0, confidence={}, notes={})
