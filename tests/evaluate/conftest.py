"""What evaluations share: an encoder that needs no files, and a small model whose answers are short."""

from dataclasses import replace

import pytest
from lovelace import Words

from precog.backbones.tenns.backbone import TennsBackbone
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(scope="session")
def words():
    return Words()


@pytest.fixture(scope="session")
def brief_backbone():
    made = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)
    made.card = replace(made.card, decoding={"beam_width": 2, "max_span_tokens": 4})
    return made
