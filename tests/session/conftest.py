import pytest
import torch

from precog.backbones.tenns.backbone import TennsBackbone
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def backbone() -> TennsBackbone:
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer())
