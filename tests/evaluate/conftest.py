"""What evaluations are tested with: an encoder that needs no files, and a small model whose answers are short."""

from dataclasses import replace

import numpy as np
import pytest

from precog.backbones.tenns.backbone import TennsBackbone
from precog.text.tokenizer import load_mistral_tokenizer


class Words:
    """Keys of hashed words."""

    dim, fingerprint, window_tokens, name = 64, "ef" * 32, 256, "words"

    def encode_query(self, text):
        key = np.full(self.dim, 1e-3, np.float32)
        for word in text.lower().split():
            key[sum(map(ord, word.strip(".,?"))) % self.dim] += 1
        return key / np.linalg.norm(key)

    def encode_passages(self, texts):
        return [self.encode_query(text)[None] for text in texts]


@pytest.fixture(scope="session")
def words():
    return Words()


@pytest.fixture(scope="session")
def brief_backbone():
    made = TennsBackbone.random("tiny-outer", load_mistral_tokenizer(), seed=1)
    made.card = replace(made.card, decoding={"beam_width": 2, "max_span_tokens": 4})
    return made
