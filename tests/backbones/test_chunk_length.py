"""A card may name the chunk length that suits its model; one that does not is the card it always was."""

import dataclasses
import json
from hashlib import sha256
from pathlib import Path

import pytest

from precog.backbones.card import ModelCard, fingerprint
from precog.backbones.tenns.checkpoint import load_model, read_card, save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.errors import ModelError

CARD = ModelCard(name="m", tokenizer_sha256="t", weights_sha256="w", config_sha256="c")


def test_a_card_without_the_field_is_written_and_checked_as_before_there_was_one() -> None:
    values = json.loads(CARD.to_json())
    assert "chunk_tokens" not in values
    checksum = values.pop("checksum")
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert checksum == sha256(text.encode()).hexdigest()
    assert ModelCard.from_json(CARD.to_json()) == CARD


def test_a_length_is_kept_checked_and_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    model = build(TennsConfig.preset("tiny-outer"))
    plain = save_model(tmp_path / "plain", model, name="m", tokenizer_sha256="t")
    saved = save_model(tmp_path / "long", model, name="m", tokenizer_sha256="t", chunk_tokens=128)
    card, config = read_card(tmp_path / "long")
    assert card == saved
    assert card.chunk_tokens == 128
    assert load_model(tmp_path / "long")[1].chunk_tokens == 128
    assert card.checksum != plain.checksum
    assert fingerprint(card, config.to_dict(), "once") == fingerprint(plain, config.to_dict(), "once")
    path = tmp_path / "long" / "precog.json"
    path.write_text(path.read_text().replace('"chunk_tokens": 128', '"chunk_tokens": 192'))
    with pytest.raises(ModelError, match="changed after it was saved"):
        read_card(tmp_path / "long")


@pytest.mark.parametrize("value", [-1, 1, 15, (1 << 16) + 1])
def test_a_length_out_of_range_is_refused(value: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="chunk_tokens is out of range"):
        dataclasses.replace(CARD, chunk_tokens=value)
    model = build(TennsConfig.preset("tiny-outer"))
    with pytest.raises(ModelError, match="chunk_tokens is out of range"):
        save_model(tmp_path / "m", model, name="m", tokenizer_sha256="t", chunk_tokens=value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["128", 128.0, True, None])
def test_a_length_of_another_type_is_refused(value: object) -> None:
    values = {**json.loads(dataclasses.replace(CARD, chunk_tokens=128).to_json()), "chunk_tokens": value}
    with pytest.raises(ModelError, match="chunk_tokens has the wrong type"):
        ModelCard.from_json(json.dumps(values))
