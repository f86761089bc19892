"""What tests of a server begin with: a tiny model, an encoder, and a server over both."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from served import client_of, services_of, settings_in

from precog.backbones.tenns.checkpoint import save_model
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import build
from precog.encoders import Encoder, load_encoder
from precog.records import ModelChoice
from precog.server.services import Services
from precog.text.tokenizer import load_mistral_tokenizer


@pytest.fixture(scope="session")
def choice(tmp_path_factory: pytest.TempPathFactory) -> ModelChoice:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    model = build(TennsConfig.preset("tiny-outer"), 0)
    save_model(folder, model, name="tiny", tokenizer_sha256=load_mistral_tokenizer().sha256)
    named = ModelChoice(name=str(folder))
    return replace(named, loaded=named.load("once"))


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return load_encoder(None)


@pytest.fixture
def services(tmp_path: Path, choice: ModelChoice, encoder: Encoder) -> Iterator[Services]:
    with services_of(settings_in(tmp_path), choice, encoder) as made:
        yield made


@pytest.fixture
def client(services: Services) -> Iterator[TestClient]:
    with client_of(services) as made:
        yield made
