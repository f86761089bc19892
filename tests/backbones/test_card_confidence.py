"""A card may hold what makes a probability of its model's scores; whatever is made of the model goes without."""

import dataclasses
import json
from pathlib import Path

import pytest

from precog.backbones.card import ModelCard, fingerprint
from precog.backbones.registry import load_backbone, load_network, with_template
from precog.backbones.template import Template
from precog.backbones.tenns.adapter import base_fingerprint, save_adapter
from precog.backbones.tenns.checkpoint import read_card, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.kept import card_to_keep_on, keep_confidence
from precog.backbones.tenns.lora import LoraSettings, add_lora, lora_tensors
from precog.backbones.tenns.model import build
from precog.engine.confidence import Confidence
from precog.engine.evidence import FEATURES
from precog.errors import ModelError
from precog.text.tokenizer import MISTRAL_SHA256

CARD = ModelCard(name="m", tokenizer_sha256="t", weights_sha256="w", config_sha256="c")
OTHER = {"bias": -1.0, "weights": {"free_entropy": 0.5}, "threshold": 0.25, "fitted": {"questions": 3}}
FOCUSED = {"bias": 1.5, "weights": {}, "threshold": 0.125, "fitted": {"quality": "study"}}
CONFIDENCE = {"bias": 0.5, "weights": {"no_answer": -0.25}, "threshold": 0.6, "fitted": {}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path / "base", build(TennsConfig.preset("tiny-outer")), name="m", tokenizer_sha256=MISTRAL_SHA256)
    return tmp_path / "base"


def test_a_card_without_the_field_is_written_as_before_there_was_one() -> None:
    assert "confidence" not in json.loads(CARD.to_json())
    assert ModelCard.from_json(CARD.to_json()) == CARD


def test_coefficients_are_kept_sealed_and_no_part_of_the_fingerprint(folder: Path) -> None:
    before, config = read_card(folder)
    states = load_backbone(folder).fingerprint
    written = keep_confidence(folder, CONFIDENCE)
    card, _ = read_card(folder)
    assert card == written == dataclasses.replace(before, confidence=CONFIDENCE)
    assert card.checksum != before.checksum
    assert fingerprint(card, config.to_dict(), "once") == fingerprint(before, config.to_dict(), "once")
    assert load_backbone(folder).fingerprint == states
    path = folder / "precog.json"
    path.write_text(path.read_text().replace('"threshold": 0.6', '"threshold": 0.1'))
    with pytest.raises(ModelError, match="changed after it was saved"):
        read_card(folder)


def test_what_was_fitted_to_focused_answers_stands_beside_the_other(folder: Path) -> None:
    with pytest.raises(ModelError, match="no confidence for states that are read once") as refused:
        keep_confidence(folder, FOCUSED, focused=True)
    assert "--keep first" in str(refused.value)
    assert "confidence" not in json.loads((folder / "precog.json").read_text())
    states = load_backbone(folder).fingerprint
    for confidence in (CONFIDENCE, OTHER):
        keep_confidence(folder, confidence)
        for focused in (FOCUSED, OTHER):
            card = keep_confidence(folder, focused, focused=True)
            assert card == read_card(folder)[0]
            assert card.confidence == {**confidence, "focused": focused}
            opened = load_backbone(folder)
            assert (opened.card, opened.fingerprint) == (card, states)
            sure = Confidence.of_model(opened.card)
            assert (sure.calibration.to_json(), sure.focused.to_json()) == (confidence, focused)  # type: ignore[union-attr]


def test_a_model_that_came_in_the_place_of_the_measured_one_is_not_given_its_coefficients(folder: Path) -> None:
    measured, config = read_card(folder)
    keep_confidence(folder, OTHER, measured=measured)
    save_model(folder, load_network(folder)[0], name="n", tokenizer_sha256=MISTRAL_SHA256, chunk_tokens=128)
    assert keep_confidence(folder, CONFIDENCE, measured=measured).chunk_tokens == 128  # says nothing of its scores
    save_model(folder, build(config, 1), name="m", tokenizer_sha256=MISTRAL_SHA256)
    with pytest.raises(ModelError, match="not the one that was measured"):
        keep_confidence(folder, CONFIDENCE, measured=measured)
    assert read_card(folder)[0].confidence == {}


def test_a_model_may_be_called_what_markers_of_corpora_say(folder: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "own", load_network(folder)[0], name="precog", tokenizer_sha256=MISTRAL_SHA256)
    assert keep_confidence(tmp_path / "own", CONFIDENCE).confidence == CONFIDENCE
    assert read_card(tmp_path / "own")[0].confidence == CONFIDENCE


@pytest.mark.parametrize("value", [0.5, "high", [], None])
def test_a_field_of_another_type_is_refused(value: object) -> None:
    values = {**json.loads(CARD.to_json()), "confidence": value}
    with pytest.raises(ModelError, match="confidence has the wrong type"):
        ModelCard.from_json(json.dumps(values))


def test_an_adapter_and_another_template_do_not_inherit_it(folder: Path, tmp_path: Path) -> None:
    keep_confidence(folder, CONFIDENCE)
    network, card = load_network(folder)
    base = base_fingerprint(card, network)
    add_lora(network, LoraSettings(rank=2), 0)
    save_adapter(
        tmp_path / "lora",
        lora_tensors(network),
        LoraSettings(rank=2),
        name="l",
        base=str(folder),
        base_fingerprint=base,
    )
    assert load_network(tmp_path / "lora")[1].confidence == {}
    assert with_template(card, Template(question="{question}?")).confidence == {}
    with pytest.raises(ModelError, match="no card to keep a confidence on"):
        keep_confidence(tmp_path / "lora", CONFIDENCE)
    with pytest.raises(ModelError, match="no card to keep a confidence on"):
        card_to_keep_on(tmp_path / "lora", focused=True)


def test_the_shipped_model_has_coefficients_and_the_states_it_always_had() -> None:
    folder = Path(__file__).parents[2] / "weights" / "tenns-base" / "precog_tenns_base"
    card, config = read_card(folder)
    assert set(card.confidence["weights"]) == set(FEATURES)  # type: ignore[arg-type]  # an object of the card
    assert 0 < Confidence.of_model(card).threshold < card.decoding["min_confidence"]  # type: ignore[operator]
    known = "81ebb75987595c91f2ffe7009336742dcd2b13a568dd78d9cc6c37a611cd3c19"
    assert fingerprint(card, config.to_dict(), "once") == known
