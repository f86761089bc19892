from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from made_keys import CountingEncoder

from precog.backbones.tenns.backbone import TennsBackbone
from precog.corpus import corpus as corpus_room
from precog.memory import made_with, opened
from precog.records import ModelChoice
from precog.session import Session, SessionOptions, memory_side
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def backbone() -> TennsBackbone:
    return TennsBackbone.random("tiny-outer", load_mistral_tokenizer())


Opened = Callable[..., Session]


@pytest.fixture
def choice(backbone: TennsBackbone) -> ModelChoice:
    return ModelChoice(loaded=backbone)


@pytest.fixture
def session(choice: ModelChoice, monkeypatch: pytest.MonkeyPatch) -> Opened:
    for room in (opened, made_with, corpus_room, memory_side):
        monkeypatch.setattr(room, "load_encoder", lambda spec: CountingEncoder())

    def open_session(folder: Path, corpus: Path | None = None, **options: object) -> Session:
        how = SessionOptions(**{"always_answer": True, **options})  # type: ignore[arg-type]
        return Session(folder, model=choice, corpus=corpus, options=how)

    return open_session
